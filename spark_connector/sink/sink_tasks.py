"""The work of one task of a write, in an executor: `delivery`, transactions and markers.

In a write that Spark may repeat (a micro-batch of a stream; a batch write with txnAppId and txnVersion), each task
commits its own transaction, with a marker (`write_once`). If another attempt has begun the write, the driver commits
the remaining transactions, after it has checked that no rows have moved between tasks (`driver_commits.py`). In any
other batch write each attempt of a task has a transaction and leaves it open; the driver commits those of the attempts
that Spark reports, and aborts the others (`write_for_driver`). With `delivery` atomic, the tasks send nothing: the
driver sends all rows (`atomic_writes.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.brokers.offset_reader import offset_reader_for
from minikafka.spark_connector.options.sink_options import SinkOptions
from minikafka.spark_connector.sink.batch_sender import BatchSender
from minikafka.spark_connector.sink.earlier_attempts import (
    DRIVER,
    Earlier,
    Write,
    check_claim,
    earlier_attempts,
    may_repeat,
    overtaken,
)
from minikafka.spark_connector.sink.replay_check import Content, Marker, NotRepeated, check_repeated
from minikafka.spark_connector.sink.sink_columns import rows_of
from minikafka.spark_connector.sink.task_transaction import Transaction
from minikafka.spark_connector.sink.task_writer import TaskWriter

if TYPE_CHECKING:
    import pyarrow as pa

TASK_TIMEOUT_MS, DRIVER_TIMEOUT_MS = 300_000, 900_000
"""The transaction time-outs: of a transaction that a task commits itself, and of one that waits for all tasks."""


@dataclass
class TaskResult(WriterCommitMessage):
    """The report of a task to the driver.

    Attributes:
        rows: the number of records of the task.
        skipped: whether the records had been committed before.
        task: the number of the task within its stage.
        write: the write, if Spark may repeat it; else None.
        may_repeat: whether an earlier attempt may have written a part of the write, as far as the task knows.
        transactional_id: the id of the transaction that the driver must end; None if there is none.
        partitions: the partitions of that transaction; else at least one of each topic that has rows of the task.
    """

    rows: int = 0
    skipped: bool = False
    task: int = -1
    write: Write | None = None
    may_repeat: bool = False
    transactional_id: str | None = None
    producer_id: int = -1
    epoch: int = -1
    partitions: list[TopicPartition] = field(default_factory=list)


def write_plainly(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> TaskResult:
    """Writes the rows of a task with an idempotent producer, without a transaction (`delivery` at_least_once)."""
    transaction = Transaction(offset_reader_for(options.kafka), None)
    transaction.begin(TASK_TIMEOUT_MS)
    return TaskResult(_written(options, transaction, batches, fingerprint=False).content.rows)


def write_for_driver(
    options: SinkOptions, write: Write, attempt: int, batches: Iterator[pa.RecordBatch]
) -> TaskResult:
    """Writes the rows of a task in a transaction that the driver ends. If writing fails, the transaction is aborted.

    Args:
        attempt: the number of the attempt of the task, which no other attempt of any task of the write has.

    Raises NotRepeated if the driver has ended the write, UnsuitableColumn, KafkaError.
    """
    first = next((one for one in batches if len(one)), None)
    if first is None:
        return TaskResult()
    brokers = offset_reader_for(options.kafka)
    transaction = Transaction(brokers, write.transactional_id(attempt))
    with aborted_on_error(transaction):
        transaction.begin(options.transaction_timeout_ms or DRIVER_TIMEOUT_MS)
        if Transaction(brokers, write.transactional_id(DRIVER)).has_begun:
            raise NotRepeated(
                f"the driver has ended the write {write.name}: this attempt of a task is late, and writes nothing"
            )
        written = _written(options, transaction, chain([first], batches), fingerprint=False)
        return _left_open(TaskResult(), transaction, written)


def write_once(options: SinkOptions, write: Write, task: int, batches: Iterator[pa.RecordBatch]) -> TaskResult:
    """Writes the rows of a task unless they have been committed before.

    The transaction is left open for the driver if another attempt has committed other tasks of the same version.

    Args:
        task: the number of the task within its stage.

    Raises NotRepeated, UnsuitableColumn, KafkaError.
    """
    brokers = offset_reader_for(options.kafka)
    transaction = Transaction(brokers, write.transactional_id(task))
    checked = may_repeat(write) and options.replay_check != "none"
    result = TaskResult(task=task, write=write, may_repeat=checked)
    first = next((one for one in batches if len(one)), None)
    if first is None:
        marker = None if options.replay_check == "none" else transaction.marker_of_others()
        if marker is not None and marker.version == write.version:
            check_repeated(marker, Content(), (), options.replay_check, f"task {task} of {write.name}")
        return result
    batches = chain([first], batches)
    earlier = earlier_attempts(brokers, write) if checked else Earlier()
    transaction.begin(options.transaction_timeout_ms or (DRIVER_TIMEOUT_MS if earlier.begun else TASK_TIMEOUT_MS))
    marker = transaction.marker()
    is_there = marker is not None and marker.version == write.version
    newest = max(earlier.newest, -1 if marker is None else marker.version)
    if overtaken(write, newest) or earlier.complete or is_there:
        again, topics = _content(options, batches)
        if marker is not None and is_there:
            check_repeated(marker, again, topics, options.replay_check, f"task {task} of {write.name}")
        return replace(result, rows=again.rows, skipped=True, partitions=[TopicPartition(one, 0) for one in topics])
    with aborted_on_error(transaction):
        if options.replay_check != "none":
            check_claim(brokers, write, earlier if checked else None)
        writer = _written(options, transaction, batches, fingerprint=True)
        transaction.mark(Marker(write.version, writer.content, write.attempt))
    if earlier.begun:
        return _left_open(result, transaction, writer)
    transaction.end(commit=True)
    return replace(result, rows=writer.content.rows, partitions=writer.partitions)


def _written(
    options: SinkOptions, transaction: Transaction, batches: Iterable[pa.RecordBatch], *, fingerprint: bool
) -> TaskWriter:
    brokers = offset_reader_for(options.kafka)
    sender = BatchSender(brokers, options, transaction.transactional_id)
    with contextlib.closing(TaskWriter(brokers, options, transaction, sender, fingerprint=fingerprint)) as writer:
        writer.write(batches)
    return writer


def _left_open(result: TaskResult, transaction: Transaction, writer: TaskWriter) -> TaskResult:
    return replace(
        result,
        rows=writer.content.rows,
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        epoch=transaction.epoch,
        partitions=writer.partitions,
    )


def _content(options: SinkOptions, batches: Iterable[pa.RecordBatch]) -> tuple[Content, set[str]]:
    found, topics = Content(), set[str]()
    for batch in batches:
        if len(batch):
            rows = rows_of(batch, options.topic, 0, found.rows)
            found.add(rows.records.keys, rows.records.values)
            topics.update(rows.topics)
    return found, topics


@contextlib.contextmanager
def aborted_on_error(transaction: Transaction) -> Iterator[None]:
    """A block whose failure aborts the transaction; if that fails too, the next attempt or the time-out aborts it."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(KafkaError):
            transaction.end(commit=False)
        raise
