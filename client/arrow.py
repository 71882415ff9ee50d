"""Records as Arrow columns, a whole fetch answer at a time: for Spark, pandas and polars. Needs pyarrow and numpy.

    async for batch in consumer.batches():
        frame = to_arrow(batch).to_pandas()

The columns are those of Spark's Kafka source: key, value, topic, partition, offset, timestamp, timestampType (0
CreateTime, 1 LogAppendTime), headers; a record without headers has null there.

Nothing is copied record by record. Where each record's fields begin and end is computed for all records at once
(`protocol.records.vectors`), every position is checked against the record that it lies in, and only then are keys,
values and headers gathered: the positions [start, end, start, end, …] are themselves the offsets of a binary array over
the answer's bytes, of which every other element is taken, in one pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from minikafka.client.consumer import RecordBatch
from minikafka.protocol.records import vectors
from minikafka.protocol.records.batch import Batch
from minikafka.protocol.records.compression import MAX_SIZE_BYTES
from minikafka.protocol.records.record import CorruptRecords, Headers, decode_headers

Array = np.ndarray[Any, Any]
TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
SCHEMA = pa.schema([
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", TIMESTAMP),
    ("timestampType", pa.int32()),
    ("headers", pa.list_(HEADER)),
])
"""All columns, in the order of Spark's Kafka source."""
COLUMNS: tuple[str, ...] = tuple(SCHEMA.names)

_MILLISECONDS_MAX = ((1 << 63) - 1) // 1000
_STRIDE_COUNT_MIN = 64
_STRIDE_RUN_MIN = 16
_VECTOR_HEADERS_MAX = 64
"""Records with more headers than that are so rare, or so hostile, that the plain loop reads them."""


class TimestampOverflow(ValueError):
    """A record's time, in milliseconds, is too great to be counted in microseconds."""


class Decoded(NamedTuple):
    """Records in columns; `timestamps` in ms since 1970. Columns that were not asked for are None."""

    offsets: Array
    timestamps: Array
    timestamp_types: Array
    keys: pa.Array | None
    values: pa.Array | None
    headers: pa.Array | None


def decode(
    batches: Sequence[Batch], columns: Collection[str] = COLUMNS, *, max_size_bytes: int = MAX_SIZE_BYTES
) -> Decoded:
    """The records of `batches`, as `Batch.records` would give them one batch after the other.

    Raises CorruptRecords where any of the batches would, also for records of more than `max_size_bytes` together;
    but what follows the last column that is asked for is not looked at. Checksums are not looked at either.
    """
    data, sections = vectors._sections(batches, max_size_bytes)
    counts = [batch.record_count for batch in batches]
    buffer = np.frombuffer(data or b"\0", np.uint8)
    fields = _fields(data, buffer, *_chain(data, buffer, sections), columns)
    vectors._check_deltas(fields.deltas, batches, counts)
    bases = np.array([batch.base_offset for batch in batches], np.int64)
    types = np.array([batch.timestamp_type for batch in batches], np.int32)
    return Decoded(
        fields.deltas + np.repeat(bases, counts),
        vectors._timestamps(fields.late, batches, counts),
        np.repeat(types, counts),
        fields.keys,
        fields.values,
        fields.headers,
    )


def _chain(data: bytes, buffer: Array, sections: Sequence[tuple[int, int, int]]) -> tuple[Array, Array]:
    """Where each record starts and ends: in strides where records are alike, by the plain loop where they are not."""
    starts: list[Array] = []
    ends: list[Array] = []
    plain: list[tuple[int, int, int]] = []

    def settle() -> None:
        if plain:
            for found, some in zip((starts, ends), vectors._chain(data, plain), strict=True):
                found.append(np.array(some, np.int64))
            plain.clear()

    for section in sections:
        strided = _strides(buffer, *section) if section[2] >= _STRIDE_COUNT_MIN else None
        if strided is None:
            plain.append(section)
            continue
        settle()
        starts.append(strided)
        ends.append(np.append(strided[1:], section[1]))
    settle()
    none = np.empty(0, np.int64)
    return np.concatenate([none, *starts]), np.concatenate([none, *ends])


def _strides(buffer: Array, position: int, end: int, count: int) -> Array | None:
    """Starts of records that come in runs of one size, as records of one kind do; None where runs are short.

    A record's size is looked at where it would have to stand if it were as long as the one before it.
    """
    runs: list[Array] = []
    while count and end - position > 2:
        first, second = int(buffer[position]), int(buffer[position + 1])
        if second >= 0x80 <= first or (first & 1):
            return None
        stride = (first >> 1) + 1 if first < 0x80 else ((first & 0x7F | second << 7) >> 1) + 2
        places = position + stride * np.arange(min(count, (end - position) // stride), dtype=np.int64)
        alike = buffer[places] == first
        if first >= 0x80:
            alike &= buffer[places + 1] == second
        length = len(places) if alike.all() else int(alike.argmin())
        if length < min(_STRIDE_RUN_MIN, count):
            return None
        runs.append(places[:length])
        position, count = position + stride * length, count - length
    return np.concatenate(runs) if not count and position == end and runs else None


class _Fields(NamedTuple):
    late: Array
    deltas: Array
    keys: pa.Array | None
    values: pa.Array | None
    headers: pa.Array | None


def _fields(data: bytes, buffer: Array, starts: Array, ends: Array, columns: Collection[str]) -> _Fields:
    """Each field of all records at once, in the order in which a record has them."""
    lengths, position = vectors._varints(buffer, starts, 5)
    if lengths.min(initial=0) < 0:
        raise CorruptRecords(f"a record of {lengths.min()} bytes")
    late, position = vectors._varints(buffer, position + 1, 10)
    deltas, position = vectors._varints(buffer, position, 5)
    headers_wanted = "headers" in columns
    if not (headers_wanted or "value" in columns or "key" in columns):
        _check_within(position, ends)
        return _Fields(late, deltas, None, None, None)
    key_starts, key_ends, position = vectors._blobs(buffer, position, "key")
    value_starts, value_ends, position = vectors._blobs(buffer, position, "value")
    headers = None
    if headers_wanted:
        counts, after = vectors._varints(buffer, position, 5)
        lists = _Headers(data, buffer, counts, position, after)
        if not np.array_equal(lists.ends, ends):
            raise CorruptRecords("a record does not end where its length says")
        headers = lists.array()
    else:
        _check_within(position, ends)
    keys = _blob_array(data, key_starts, key_ends) if "key" in columns else None
    values = _blob_array(data, value_starts, value_ends) if "value" in columns else None
    return _Fields(late, deltas, keys, values, headers)


def _check_within(position: Array, ends: Array) -> None:
    """Sizes are -1 or more, so positions only grow: where the last lies within its record, all do."""
    if (position > ends).any():
        raise CorruptRecords("a record does not end where its length says")


def _blob_array(data: bytes, starts: Array, ends: Array) -> pa.Array:
    """The pieces of `data`, null where one ends before it starts. Positions must lie in `data` and only grow."""
    count = len(starts)
    nulls = ends < starts
    if nulls.all():
        return pa.nulls(count, pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = np.maximum(starts, ends)
    pieces = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    wanted = pa.array(np.arange(0, 2 * count, 2, dtype=np.int64), mask=nulls if nulls.any() else None)
    return pieces.take(wanted)


class _Headers:
    """The headers of many records: their positions first, which give `ends`, then, when those are right, the arrays."""

    def __init__(self, data: bytes, buffer: Array, counts: Array, position: Array, after: Array) -> None:
        if counts.min(initial=0) < 0 or counts.sum() > len(data) // 2:
            raise CorruptRecords("a record claims more headers than fit in its batch, or fewer than none")
        self._data = data
        self._counts = counts
        self._plain: list[Headers] | None = None
        if counts.max(initial=0) > _VECTOR_HEADERS_MAX:
            self._read_plainly(position, after)
        else:
            self._locate(buffer, after)

    def _read_plainly(self, position: Array, after: Array) -> None:
        self.ends, self._plain = after.copy(), []
        try:
            for index, start in enumerate(position.tolist()):
                headers, self.ends[index] = decode_headers(self._data, start)
                self._plain.append(headers)
        except IndexError:
            raise CorruptRecords("a record's headers go past the end of its batch") from None

    def _locate(self, buffer: Array, after: Array) -> None:
        """One step for the first header of every record that has one, one for the second, and so on."""
        firsts = np.cumsum(self._counts) - self._counts
        self._bounds = np.empty((4, int(self._counts.sum())), np.int64)
        self.ends = after
        for number in range(int(self._counts.max(initial=0))):
            having = np.flatnonzero(self._counts > number)
            sizes, starts = vectors._varints(buffer, self.ends[having], 5)
            if sizes.min(initial=0) < 0:
                raise CorruptRecords("a header without a name")
            ends = starts + sizes
            value_starts, value_ends, self.ends[having] = vectors._blobs(buffer, ends, "header's value")
            self._bounds[:, firsts[having] + number] = starts, ends, value_starts, value_ends

    def array(self) -> pa.Array:
        """A list of (key, value) for each record, null for none. Only for positions that were found to be right."""
        if self._plain is not None:
            rows = [[{"key": key, "value": value} for key, value in one] or None for one in self._plain]
            return pa.array(rows, SCHEMA.field("headers").type)
        if not self._bounds.shape[1]:
            return pa.nulls(len(self._counts), SCHEMA.field("headers").type)
        names = _texts(_blob_array(self._data, self._bounds[0], self._bounds[1]))
        values = _blob_array(self._data, self._bounds[2], self._bounds[3])
        offsets = np.zeros(len(self._counts) + 1, np.int32)
        np.cumsum(self._counts, out=offsets[1:])
        pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADER))
        none = self._counts == 0
        mask = pa.array(none) if none.any() else None
        return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=SCHEMA.field("headers").type, mask=mask)


def _texts(names: pa.Array) -> pa.Array:
    """Bytes as text, with replacement characters where they are not UTF-8, as Java does."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())


def record_batch(decoded: Decoded, topic: str, partition: int, columns: Iterable[str] = COLUMNS) -> pa.RecordBatch:
    """Decoded records of one partition as a record batch of these columns, in this order.

    Raises TimestampOverflow.
    """
    count = len(decoded.offsets)
    arrays: dict[str, Any] = {
        "key": lambda: decoded.keys,
        "value": lambda: decoded.values,
        "topic": lambda: pa.repeat(pa.scalar(topic, pa.string()), count),
        "partition": lambda: pa.array(np.full(count, partition, np.int32)),
        "offset": lambda: pa.array(decoded.offsets),
        "timestamp": lambda: _microseconds(decoded, topic, partition),
        "timestampType": lambda: pa.array(decoded.timestamp_types),
        "headers": lambda: decoded.headers,
    }
    names = list(columns)
    schema = pa.schema([SCHEMA.field(name) for name in names])
    return pa.RecordBatch.from_arrays([arrays[name]() for name in names], schema=schema)


def _microseconds(decoded: Decoded, topic: str, partition: int) -> pa.Array:
    wrong = np.flatnonzero(np.abs(decoded.timestamps) > _MILLISECONDS_MAX)
    if wrong.size:
        offset, timestamp = decoded.offsets[wrong[0]], decoded.timestamps[wrong[0]]
        raise TimestampOverflow(
            f"Record at topic {topic} partition {partition} offset {offset} has timestamp value {timestamp} that"
            " overflows when converting to microseconds. Kafka's timestamps are milliseconds since 1970; this producer"
            " may be writing microseconds or nanoseconds."
        )
    return pa.array(decoded.timestamps * 1000).cast(TIMESTAMP)


def to_arrow(batch: RecordBatch) -> pa.RecordBatch:
    """What `Consumer.batches` gave, as an Arrow record batch with all columns.

    Keys and values have to be bytes, as they are without deserializers; others raise pyarrow's ArrowTypeError.
    Raises TimestampOverflow.
    """
    records = batch.records
    decoded = Decoded(
        np.array([record.offset for record in records], np.int64),
        np.array([record.timestamp for record in records], np.int64),
        np.array([record.timestamp_type for record in records], np.int32),
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array(
            [[{"key": key, "value": value} for key, value in record.headers] or None for record in records],
            SCHEMA.field("headers").type,
        ),
    )
    return record_batch(decoded, batch.topic, batch.partition)
