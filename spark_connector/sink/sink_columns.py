"""The columns of the sink: checks their types, and converts Spark's Arrow batches for the encoder. Pure.

Only columns with the names in `TYPES` are written; Spark's own sink also ignores others, and has no `timestamp`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minikafka.client.consumer.arrow_batches import HEADER
from minikafka.client.producer.arrow_encoding import BLOB, ArrowRecords
from minikafka.client.producer.partitioner import partitions_for_slices
from minikafka.protocol.counted import counted
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.numpy_varints import Array

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS_TYPE,),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz", "double"),
}
_KEY_BYTES_MAX = 40
"""The number of bytes of a key that an error message shows."""
NULL_TOPIC = (
    "The Kafka message data sent to the producer contains a null topic. Use the `topic` option for setting a default"
    " topic."
)


class UnsuitableColumn(ValueError):
    """A column is missing, has another type, or a value that cannot be written."""


def check_schema(schema: StructType, topic: str | None) -> None:
    """Raises UnsuitableColumn, with the error messages of Spark's sink, for missing columns and wrong types."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if topic is None and "topic" not in types:
        raise UnsuitableColumn(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in types:
        raise UnsuitableColumn("Required attribute 'value' not found")
    for name, allowed in TYPES.items():
        found = types.get(name)
        if found is None or (name == "topic" and topic is not None):
            continue
        if found.startswith(("varchar", "char")):
            found = "string"
        elif name == "headers" and found.lower() == HEADERS_TYPE:
            found = HEADERS_TYPE
        if found not in allowed:
            raise UnsuitableColumn(
                f"{name} attribute unsupported type {found}. {name} must be a(n) {' or '.join(allowed)}"
            )


class Rows(NamedTuple):
    """A batch of rows in columns.

    Attributes:
        topics: the names of the topics.
        topic_of: the index of each row's topic in `topics`.
        partitions: the column `partition`, with -1 in place of null; None without the column.
        before: the number of rows of the task in earlier batches.
    """

    records: ArrowRecords
    topics: list[str]
    topic_of: Array
    partitions: Array | None
    before: int = 0

    def row_in_words(self, index: int) -> str:
        """A description of a row for error messages: its number in the task, from 1, and its key."""
        return _named(self.records.keys, self.before, index)


def rows_of(batch: pa.RecordBatch, topic: str | None, now_ms: int, before: int = 0) -> Rows:
    """Converts one of Spark's batches. Raises UnsuitableColumn for a null topic or a negative partition."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    keys = columns["key"].cast(BLOB) if "key" in columns else None
    if keys is not None and keys.null_count == len(keys):
        keys = None
    timestamps = np.full(len(batch), now_ms, np.int64)
    if "timestamp" in columns:
        timestamps = _milliseconds(columns["timestamp"], now_ms)
    headers = _headers(columns["headers"]) if "headers" in columns else None
    records = ArrowRecords(keys, columns["value"].cast(BLOB), timestamps, headers)
    if topic is not None:
        topics, topic_of = [topic], np.zeros(len(batch), np.int64)
    else:
        topics, topic_of = _topics(columns["topic"], lambda index: _named(keys, before, index))
    rows = Rows(records, topics, topic_of, None, before)
    return rows._replace(partitions=_partitions(columns["partition"], rows)) if "partition" in columns else rows


def _named(keys: Any, before: int, index: int) -> str:
    return f"row {before + index + 1} of the task, {key_in_words(None if keys is None else keys[index].as_py())}"


def key_in_words(key: bytes | None) -> str:
    """A description of a record's key for error messages; a long key is shortened."""
    if key is None:
        return "without a key"
    rest = f" … of {counted(len(key), 'byte')}" if len(key) > _KEY_BYTES_MAX else ""
    return f"with the key {key[:_KEY_BYTES_MAX]!r}{rest}"


def _partitions(column: pa.Array, rows: Rows) -> Array:
    chosen = np.asarray(pc.fill_null(column.cast(pa.int64()), -1))
    if column.null_count < len(column) and pc.min(column).as_py() < 0:
        index = int(np.flatnonzero((chosen < 0) & np.asarray(column.is_valid()))[0])
        raise UnsuitableColumn(
            f"Invalid partition: {chosen[index]}. Partition number should always be non-negative or null."
            f" Column 'partition', topic {rows.topics[int(rows.topic_of[index])]}: {rows.row_in_words(index)}."
        )
    return chosen


def _milliseconds(column: pa.Array, now_ms: int) -> Array:
    if pa.types.is_floating(column.type):  # in seconds, as in Spark's cast
        microseconds = pc.floor(pc.multiply(column, 1e6)).cast(pa.int64())
    else:
        microseconds = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    found = np.asarray(pc.fill_null(microseconds, 0)) // 1000
    return np.where(np.asarray(column.is_null()), now_ms, found)


def _headers(column: pa.Array) -> pa.Array:
    """The headers with lower-case field names, because Spark compares field names case-insensitively."""
    header = column.type.value_type
    fields = [header.field(index) for index in range(header.num_fields)]
    lower = [one.with_name(one.name.lower()) for one in fields]
    if lower != fields:
        column = column.view(pa.list_(column.type.value_field.with_type(pa.struct(lower))))
    return column.cast(pa.list_(HEADER))


def _topics(column: pa.Array, named: Callable[[int], str]) -> tuple[list[str], Array]:
    column = column.cast(pa.string())
    if column.null_count:
        raise UnsuitableColumn(f"{NULL_TOPIC} Column 'topic': {named(column.is_null().index(True).as_py())}.")
    found = column.dictionary_encode()
    return found.dictionary.to_pylist(), np.asarray(found.indices).astype(np.int64)


def choose_partitions(
    rows: Rows, count_of: Callable[[str], int], sticky: int, *, ignore_keys: bool = False
) -> Array:
    """Chooses each row's partition: by the column `partition`, by key as Java's default partitioner, or `sticky`.

    Args:
        count_of: returns the number of partitions of a topic.
        sticky: determines the partition of rows without a key.
        ignore_keys: whether rows with a key are distributed like those without.

    Raises UnsuitableColumn for a partition that does not exist.
    """
    chosen = np.full(len(rows.topic_of), -1, np.int64) if rows.partitions is None else rows.partitions.copy()
    keyed = np.zeros(len(chosen), bool)
    if rows.records.keys is not None and not ignore_keys:
        keyed = np.asarray(rows.records.keys.is_valid())
    for index, topic in enumerate(rows.topics):
        count, own = count_of(topic), rows.topic_of == index
        unknown = np.flatnonzero(own & (chosen >= count))
        if unknown.size:
            first = int(unknown[0])
            raise UnsuitableColumn(
                f"{TopicPartition(topic, int(chosen[first]))} does not exist: topic {topic} has"
                f" {counted(count, 'partition')}; see the column 'partition': {rows.row_in_words(first)}"
            )
        free = own & (chosen < 0)
        chosen[free & ~keyed] = sticky % count
        of_key = np.flatnonzero(free & keyed)
        if of_key.size:
            chosen[of_key] = _of_keys(rows.records.keys, of_key, count)
    return chosen


def _of_keys(keys: Any, wanted: Array, count: int) -> Array:
    buffer, bounds = blob_buffers(keys)
    starts = bounds[:-1][wanted]
    return np.asarray(partitions_for_slices(buffer, starts, bounds[1:][wanted] - starts, count))


def blob_buffers(blobs: Any) -> tuple[Array, Array]:
    """The bytes of a `large_binary` array, and the bounds of its values within them."""
    _, bounds, data = blobs.buffers()
    buffer = np.frombuffer(data or b"", np.uint8)
    return buffer, np.frombuffer(bounds, np.int64)[blobs.offset : blobs.offset + len(blobs) + 1]


class Sorted(NamedTuple):
    """The rows of a batch, sorted by topic and partition.

    Attributes:
        places: each partition with the index of its first row.
        order: the index of each sorted row among the given rows; None if they were sorted already.
    """

    records: ArrowRecords
    places: list[tuple[TopicPartition, int]]
    order: Array | None

    def place_of(self, index: int) -> tuple[TopicPartition, int]:
        """The partition of a sorted row, and its index among the given rows."""
        tp = next(tp for tp, first in reversed(self.places) if first <= index)
        return tp, index if self.order is None else int(self.order[index])


def sort_rows(rows: Rows, partitions: Array) -> Sorted:
    """Sorts the rows by topic and partition, keeping their order within each."""
    keys = rows.topic_of * (int(partitions.max(initial=0)) + 1) + partitions
    records, order = rows.records, None
    if (np.diff(keys) < 0).any():
        narrow = keys.astype(np.uint16) if keys.max() < 1 << 16 else keys  # which numpy sorts in linear time
        order = np.argsort(narrow, kind="stable")
        keys_taken, headers = (None if one is None else one.take(order) for one in (records.keys, records.headers))
        records = ArrowRecords(keys_taken, records.values.take(order), records.timestamps[order], headers)
        keys, partitions, topic_of = keys[order], partitions[order], rows.topic_of[order]
    else:
        topic_of = rows.topic_of
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    places: Sequence[tuple[int, int, int]] = list(
        zip(topic_of[firsts].tolist(), partitions[firsts].tolist(), firsts.tolist(), strict=True)
    )
    found = [(TopicPartition(rows.topics[topic], partition), first) for topic, partition, first in places]
    return Sorted(records, found, order)
