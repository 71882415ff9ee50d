"""Writes the rows of one task: converts Spark's Arrow batches to record batches, and hands them to a sender."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from minikafka.client.producer.arrow_encoding import (
    RECORD_OVERHEAD_MAX,
    NullHeaderKey,
    Payload,
    blob_sizes,
    encode,
    header_sizes,
    size_alone,
)
from minikafka.protocol.errors import InvalidTopicError, UnknownTopicOrPartitionError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import TRANSACTIONAL, BatchHeader
from minikafka.protocol.records.numpy_varints import Array
from minikafka.spark_connector.brokers import sockets
from minikafka.spark_connector.brokers.offset_reader import OffsetReader
from minikafka.spark_connector.options.sink_options import SinkOptions
from minikafka.spark_connector.sink.batch_sender import SEQUENCES, Outgoing, Parts
from minikafka.spark_connector.sink.replay_check import Content
from minikafka.spark_connector.sink.sink_columns import (
    Rows,
    Sorted,
    UnsuitableColumn,
    choose_partitions,
    rows_of,
    sort_rows,
)

if TYPE_CHECKING:
    import pyarrow as pa


_COPIED_BYTES_MAX = 32 << 10
"""Batches smaller than this are copied into their requests; larger ones are sent without a copy."""


class Producer(Protocol):
    """The producer id, epoch and transaction of batches: a `Transaction`, or a stand-in if the driver sends them."""

    transactional_id: str | None
    producer_id: int
    epoch: int

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Adds partitions to the transaction."""


class Sender(Protocol):
    """The destination of batches: a `BatchSender`, or a collector for the driver.

    Attributes:
        batch_bytes_max: the maximum size that further batches should have.
    """

    batch_bytes_max: int

    def send(self, batches: Sequence[Outgoing]) -> None:
        """Sends batches of different partitions."""

    def flush(self) -> None:
        """Waits until all batches are acknowledged."""

    def close(self) -> None:
        """Closes connections."""


class TaskWriter:
    """Writes the rows of a task as record batches with a producer's id and sequence numbers.

    Args:
        fingerprint: whether `content` has a fingerprint, for which all bytes are read once more.

    Attributes:
        content: the summary of the records that were written.
        partitions: the partitions to which records were written.
    """

    def __init__(
        self, brokers: OffsetReader, options: SinkOptions, producer: Producer, sender: Sender, *, fingerprint: bool
    ) -> None:
        self.content = Content()
        self._fingerprint = fingerprint
        self._brokers = brokers
        self._options = options
        self._producer = producer
        self._sender = sender
        self._sequences: dict[TopicPartition, int] = {}
        self._sticky = int(sockets.random_id()[:7], 16)
        self._metadata_due_s = float("-inf")

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted(self._sequences)

    def close(self) -> None:
        """Closes the connections."""
        self._sender.close()

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Writes all rows and waits until they are acknowledged.

        Raises UnsuitableColumn for values that cannot be written, KafkaError.
        """
        for batch in batches:
            if len(batch):
                self._write_batch(batch)
        self._sender.flush()

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        self._refresh_if_due()
        rows = rows_of(batch, self._options.topic, sockets.now_ms(), self.content.rows)
        self._sticky += 1
        records, places, _ = some = sort_rows(rows, self._choose(rows))
        if self._fingerprint:
            self.content.add(records.keys, records.values)
        else:
            self.content.rows += len(batch)
        self._producer.add([tp for tp, _ in places])
        starts = np.array([first for _, first in places], np.int64)
        firsts = self._cut(rows, some, starts)
        try:
            payload = encode(records, firsts)
        except NullHeaderKey as error:
            tp, row = some.place_of(error.record)
            raise UnsuitableColumn(f"headers: {error}; {tp}: {rows.row_in_words(row)}") from None
        waves: dict[int, list[Outgoing]] = {}
        places_of = np.searchsorted(starts, firsts, side="right") - 1
        numbers = np.arange(len(firsts)) - np.searchsorted(firsts, starts)[places_of]
        for index, (place, number) in enumerate(zip(places_of.tolist(), numbers.tolist(), strict=True)):
            waves.setdefault(number, []).append(self._outgoing(payload, index, places[place][0]))
        for wave in waves.values():
            self._sender.send(wave)

    def _outgoing(self, payload: Payload, index: int, tp: TopicPartition) -> Outgoing:
        sequence, count = self._sequences.get(tp, 0), payload.count(index)
        is_transactional = self._producer.transactional_id is not None
        header = BatchHeader(
            self._options.codec | TRANSACTIONAL * is_transactional,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            base_sequence=sequence,
        )
        head, body = payload.parts(index, header, level=self._options.level)
        self._sequences[tp] = (sequence + count) % SEQUENCES
        data = Parts(head, body) if len(body) >= _COPIED_BYTES_MAX else b"".join((head, body))
        return Outgoing(tp, data, count)

    def _refresh_if_due(self) -> None:
        """Fetches metadata anew at the begin of a task and each `kafka.metadata.max.age.ms`: topics get partitions."""
        if sockets.now_s() >= self._metadata_due_s:
            if self._brokers.metadata.topics:
                self._brokers.refresh(list(self._brokers.metadata.topics))
            self._metadata_due_s = sockets.now_s() + self._options.metadata_age_s

    def _choose(self, rows: Rows) -> Array:
        return choose_partitions(rows, self._partition_count, self._sticky, ignore_keys=self._options.ignore_keys)

    def _cut(self, rows: Rows, some: Sorted, starts: Array) -> Array:
        """Returns the first record of each batch; a batch has about `batch_bytes`, or a single large record."""
        records = some.records
        sizes = np.maximum(blob_sizes(records.values), 0) + RECORD_OVERHEAD_MAX
        if records.keys is not None:
            sizes = sizes + np.maximum(blob_sizes(records.keys), 0)
        if records.headers is not None:
            sizes = sizes + header_sizes(records.headers)
        largest, limit = int(sizes.argmax()), min(self._options.batch_bytes, self._sender.batch_bytes_max)
        if (size := size_alone(records, largest)) > self._options.request_bytes_max:
            tp, row = some.place_of(largest)
            raise UnsuitableColumn(
                f"{tp}: The message is {size} bytes when serialized which is larger than"
                f" {self._options.request_bytes_max}, which is the value of the max.request.size configuration."
                f" Set kafka.max.request.size. The message: {rows.row_in_words(row)}."
            )
        position = np.cumsum(sizes) - sizes
        lengths = np.diff(np.append(starts, len(sizes)))
        bucket = (position - np.repeat(position[starts], lengths)) // limit
        alone = sizes > limit // 2
        begins = np.ones(len(sizes), bool)
        begins[1:] = (np.diff(bucket) != 0) | alone[1:] | alone[:-1]
        begins[starts] = True
        return np.flatnonzero(begins)

    def _partition_count(self, topic: str) -> int:
        """Returns the number of a topic's partitions, waiting for a new topic. Raises UnknownTopicOrPartitionError."""
        known = self._brokers.metadata.topics
        deadline, pause_s = sockets.now_s() + self._options.kafka.api_timeout_s, 0.05
        while topic not in known or not known[topic].partitions:
            self._brokers.refresh([topic], create=True)
            error = self._brokers.metadata.errors.get(topic)
            if topic in known:
                break
            if isinstance(error, InvalidTopicError):
                raise InvalidTopicError(
                    f"Invalid topic {topic!r}: a name has 1 to 249 letters, digits, '.', '_' and '-'; see the option or"
                    " the column 'topic'"
                )
            if error is not None and not error.retriable:
                raise error
            if sockets.now_s() >= deadline:
                raise UnknownTopicOrPartitionError(
                    f"Topic {topic} not present in metadata after {self._options.kafka.api_timeout_s * 1000:.0f} ms"
                    " (kafka.max.block.ms)."
                )
            sockets.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)
        return len(known[topic].partitions)
