"""`delivery` atomic: tasks encode record batches, and the driver sends them all in one transaction. Blocking.

The transaction has one transactional id for each query, and contains the marker of the micro-batch. Its coordinator
decides on all partitions at once, and writes the outcome to all of them, even if the driver dies meanwhile.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from minikafka.protocol.counted import counted
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import stamp_producer
from minikafka.spark_connector.brokers.offset_reader import offset_reader_for
from minikafka.spark_connector.options.sink_options import SinkOptions
from minikafka.spark_connector.sink.batch_sender import SEQUENCES, BatchSender, Outgoing
from minikafka.spark_connector.sink.earlier_attempts import (
    DRIVER,
    Write,
    check_claim,
    check_other_tasks,
    claim,
    may_repeat,
    overtaken,
)
from minikafka.spark_connector.sink.replay_check import Content, Marker, check_topics
from minikafka.spark_connector.sink.sink_tasks import TASK_TIMEOUT_MS, TaskResult, aborted_on_error
from minikafka.spark_connector.sink.task_transaction import Transaction
from minikafka.spark_connector.sink.task_writer import TaskWriter

if TYPE_CHECKING:
    import pyarrow as pa

_REQUEST_BYTES = 4 << 20
_SAME_DELIVERY = (
    "Start the query with delivery 'exactly_once', as it was, until this micro-batch is complete, or accept that by the"
    " option replayCheck 'none'"
)


class TooLarge(Exception):
    """A write with `delivery` atomic has more bytes than its limit."""


@dataclass
class Encoded(TaskResult):
    """The result of a task: its record batches, in the order of its rows, without a producer id."""

    batches: list[Outgoing] = field(default_factory=list)


class _Stage:
    """Collects the batches of a task for the driver; serves as `Producer` and `Sender` of the task's `TaskWriter`."""

    transactional_id: str | None = ""
    producer_id, epoch = 0, 0
    batch_bytes_max = sys.maxsize

    def __init__(self, bytes_max: int) -> None:
        self.batches: list[Outgoing] = []
        self._bytes = 0
        self._bytes_max = bytes_max

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Does nothing: the driver adds partitions to its transaction."""

    def send(self, batches: Sequence[Outgoing]) -> None:
        """Keeps the batches. Raises TooLarge if their total size exceeds the limit."""
        self.batches += [Outgoing(one.tp, one.whole, one.count) for one in batches]
        self._bytes += sum(len(one.data) for one in batches)
        _check_size(self._bytes, self._bytes_max)

    def flush(self) -> None:
        """Does nothing: no batch awaits a response."""

    def close(self) -> None:
        """Does nothing: there is no connection."""


def encode_for_driver(options: SinkOptions, write: Write, task: int, batches: Iterable[pa.RecordBatch]) -> Encoded:
    """Encodes the rows of a task. Raises UnsuitableColumn, TooLarge, KafkaError if a topic is not found."""
    stage = _Stage(options.atomic_bytes_max)
    writer = TaskWriter(offset_reader_for(options.kafka), options, stage, stage, fingerprint=False)
    writer.write(batches)
    checked = may_repeat(write) and options.replay_check != "none"
    return Encoded(
        writer.content.rows, task=task, write=write, may_repeat=checked, batches=stage.batches
    )


def write_together(options: SinkOptions, results: Sequence[Encoded]) -> bool:
    """Sends the record batches of all tasks in one transaction, unless the version was committed before.

    Returns whether the batches were written. Raises TooLarge, NotRepeated, KafkaError: then no record is visible,
    unless only the response to the commit was lost, which the next attempt finds out from the marker.
    """
    write = results[0].write if results else None
    batches = [batch for one in results for batch in one.batches]
    if write is None:
        return False
    brokers = offset_reader_for(options.kafka)
    is_first = write.version >= 0 and all(one.may_repeat for one in results)
    if is_first:
        claim(brokers, write, {one.tp.topic for one in batches})
    if not batches:
        return False
    _check_size(sum(len(one.data) for one in batches), options.atomic_bytes_max)
    transaction = Transaction(brokers, write.transactional_id(DRIVER))
    timeout_ms = options.transaction_timeout_ms or TASK_TIMEOUT_MS
    transaction.begin(timeout_ms)
    if write.version >= 0:
        marker = transaction.marker()
        if marker is not None and overtaken(write, marker.version):
            return False
        if marker is not None and marker.version == write.version:
            check_topics(marker, {one.tp.topic for one in batches}, options.replay_check, write.name)
            return False
        if is_first:
            check_other_tasks(brokers, write, (), timeout_ms, _SAME_DELIVERY)
        elif options.replay_check != "none":
            check_claim(brokers, write, None)
    with aborted_on_error(transaction):
        partitions = list(dict.fromkeys(one.tp for one in batches))
        brokers.refresh({tp.topic for tp in partitions})
        transaction.add(partitions)
        with contextlib.closing(BatchSender(brokers, options, transaction.transactional_id)) as sender:
            for wave in _waves(batches, transaction):
                sender.send(wave)
            sender.flush()
        if write.version >= 0:
            content = Content(sum(one.rows for one in results))
            transaction.mark(Marker(write.version, content, write.attempt))
    transaction.end(commit=True)
    return True


def _waves(batches: Iterable[Outgoing], transaction: Transaction) -> Iterator[list[Outgoing]]:
    """Groups of batches of different partitions, about `_REQUEST_BYTES` each, stamped with the producer's numbers."""
    queues: dict[TopicPartition, deque[Outgoing]] = {}
    for one in batches:
        queues.setdefault(one.tp, deque()).append(one)
    sequences = dict.fromkeys(queues, 0)
    while queues:
        wave, size = list[Outgoing](), 0
        for tp, queue in list(queues.items()):
            one = queue.popleft()
            if not queue:
                del queues[tp]
            if wave and size + len(one.data) > _REQUEST_BYTES:
                yield wave
                wave, size = [], 0
            data = bytearray(one.whole)
            stamp_producer(data, transaction.producer_id, transaction.epoch, sequences[tp])
            sequences[tp] = (sequences[tp] + one.count) % SEQUENCES
            wave.append(Outgoing(tp, bytes(data), one.count))
            size += len(data)
        yield wave


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise TooLarge(
            f"delivery 'atomic' passes all rows of a write through the driver, and these have"
            f" {counted(size, 'byte')} or more in record batches, which is larger than {limit}. Set the option"
            " atomicBytesMax higher, if the driver has memory for several times that (spark.driver.memory,"
            " spark.driver.maxResultSize), or make later micro-batches smaller (maxOffsetsPerTrigger),"
            " or set kafka.compression.type, or use delivery 'exactly_once'"
        )
