"""Decodes record batches into Arrow columns, a whole fetch response at a time. Requires pyarrow and numpy.

    async for batch in consumer.arrow_batches():
        frame = batch.to_pandas()

The columns are those of Spark's Kafka source: key, value, topic, partition, offset, timestamp, timestampType (0
CreateTime, 1 LogAppendTime), headers (null for a record without headers).

`Consumer.arrow_batches` (for pandas and polars) and the Spark data source use this module. Nothing is copied record by
record. The start and end of every field are computed for all records at once (`protocol.records`: `batch_table`,
`numpy_codec`) and checked against the bounds of their record. Then keys, values and headers are gathered: the positions
[start, end, start, end, …] serve as the offsets of a binary array over the response's bytes, and every other element of
that array is taken, in one pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from minikafka.client.records import RecordBatch
from minikafka.protocol.records.batch import Batch
from minikafka.protocol.records.batch_table import BatchTable, table_of
from minikafka.protocol.records.compression import MAX_SIZE_BYTES, Buffer
from minikafka.protocol.records.numpy_codec import RecordPositions, locate_records
from minikafka.protocol.records.numpy_varints import Array, read_blobs, read_varints
from minikafka.protocol.records.record import CorruptRecords, Headers, decode_headers

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
_VECTOR_HEADERS_MAX = 64
"""If a record has more headers, which is rare or hostile, headers are read in a plain loop."""


class TimestampOverflow(ValueError):
    """Raised for a record whose timestamp in ms is too large to be represented in microseconds."""


class Decoded(NamedTuple):
    """Decoded records in columns; `timestamps` are in ms since 1970. Columns that were not requested are None."""

    offsets: Array
    timestamps: Array
    timestamp_types: Array
    keys: pa.Array | None
    values: pa.Array | None
    headers: pa.Array | None


def decode(
    batches: Sequence[Batch], columns: Collection[str] = COLUMNS, *, max_size_bytes: int = MAX_SIZE_BYTES
) -> Decoded:
    """Decode the records of `batches`, in the order of `Batch.records`; see `decode_table`."""
    return decode_table(table_of(batches), columns, max_size_bytes=max_size_bytes)


def decode_table(
    table: BatchTable, columns: Collection[str] = COLUMNS, *, max_size_bytes: int = MAX_SIZE_BYTES
) -> Decoded:
    """Decode the records of a table of batches; many small batches take hardly longer than few large ones.

    Raises CorruptRecords if any of the batches is damaged, TooMuchContent if compressed records exceed
    `max_size_bytes` together. Bytes of a record after the last requested column are not checked, nor are
    checksums (see `BatchTable.check_crcs`).
    """
    found = locate_records(table, max_size_bytes)
    keys, values, headers = _fields(found, columns)
    types = np.repeat(table.timestamp_types.astype(np.int32), found.sections.counts)
    return Decoded(found.offsets, found.timestamps, types, keys, values, headers)


def _fields(
    found: RecordPositions, columns: Collection[str]
) -> tuple[pa.Array | None, pa.Array | None, pa.Array | None]:
    """Keys, values and headers, as far as requested, read in the order in which a record contains them."""
    data, buffer, position = found.sections.data, found.buffer, found.position
    headers_wanted = "headers" in columns
    if not (headers_wanted or "value" in columns or "key" in columns):
        _check_within(position, found.ends)
        return None, None, None
    key_starts, key_ends, position = read_blobs(buffer, position, "key")
    headers = values = None
    if headers_wanted or "value" in columns:
        value_starts, value_ends, position = read_blobs(buffer, position, "value")
    if headers_wanted:
        counts, after = read_varints(buffer, position)
        lists = _Headers(data, buffer, counts, position, after)
        if not np.array_equal(lists.ends, found.ends):
            raise CorruptRecords("a record does not end where its length says")
        headers = lists.array()
    else:
        _check_within(position, found.ends)
    keys = _blob_array(data, key_starts, key_ends) if "key" in columns else None
    values = _blob_array(data, value_starts, value_ends) if "value" in columns else None
    return keys, values, headers


def _check_within(position: Array, ends: Array) -> None:
    """Check that the last position read is within each record. Sizes are -1 or more, so earlier positions are too."""
    if (position > ends).any():
        raise CorruptRecords("a record does not end where its length says")


def _blob_array(data: Buffer, starts: Array, ends: Array) -> pa.Array:
    """Slices of `data`; null for a slice that ends before it starts. Positions must be within `data` and increasing."""
    count = len(starts)
    nulls = ends < starts
    if nulls.all():
        return pa.nulls(count, pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = np.maximum(starts, ends)
    slices = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    wanted = pa.array(np.arange(0, 2 * count, 2, dtype=np.int64), mask=nulls if nulls.any() else None)
    return slices.take(wanted)


class _Headers:
    """The headers of many records. The constructor finds positions and `ends`; once checked, `array` builds arrays."""

    def __init__(self, data: Buffer, buffer: Array, counts: Array, position: Array, after: Array) -> None:
        if counts.min(initial=0) < 0 or counts.sum() > len(data) // 2:
            raise CorruptRecords("a record's header count is negative or exceeds its batch")
        self._data = data
        self._counts = counts
        self._plain: list[Headers] | None = None
        if counts.max(initial=0) > _VECTOR_HEADERS_MAX:
            self._read_plainly(position, after)
        else:
            self._locate(buffer, after)

    def _read_plainly(self, position: Array, after: Array) -> None:
        self.ends, self._plain = after.copy(), []
        data = bytes(self._data)
        try:
            for index, start in enumerate(position.tolist()):
                headers, self.ends[index] = decode_headers(data, start)
                self._plain.append(headers)
        except IndexError:
            raise CorruptRecords("a record's headers exceed its batch") from None

    def _locate(self, buffer: Array, after: Array) -> None:
        """Find the position of each record's first header, if it has one, then of each second header, and so on."""
        firsts = np.cumsum(self._counts) - self._counts
        self._bounds = np.empty((4, int(self._counts.sum())), np.int64)
        self.ends = after
        for number in range(int(self._counts.max(initial=0))):
            having = np.flatnonzero(self._counts > number)
            sizes, starts = read_varints(buffer, self.ends[having], 5)
            if sizes.min(initial=0) < 0:
                raise CorruptRecords("a header's name has a negative length")
            ends = starts + sizes
            value_starts, value_ends, self.ends[having] = read_blobs(buffer, ends, "header's value")
            self._bounds[:, firsts[having] + number] = starts, ends, value_starts, value_ends

    def array(self) -> pa.Array:
        """A list of (key, value) for each record, null if it has no headers. Call only after `ends` was checked."""
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
    """Decode UTF-8 bytes as text, with replacement characters for invalid bytes, as Java does."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())


def record_batch(decoded: Decoded, topic: str, partition: int, columns: Iterable[str] = COLUMNS) -> pa.RecordBatch:
    """Decoded records of one partition as an Arrow record batch with these columns, in this order.

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


def records_from(
    batches: Sequence[Batch],
    start: int,
    topic: str,
    partition: int,
    columns: Sequence[str],
    *,
    max_size_bytes: int = MAX_SIZE_BYTES,
) -> pa.RecordBatch:
    """The records of `batches` from offset `start` on, as an Arrow record batch.

    Raises CorruptRecords, TooMuchContent, TimestampOverflow.
    """
    found = decode(batches, columns, max_size_bytes=max_size_bytes)
    first = int(np.searchsorted(found.offsets, start))
    return record_batch(found, topic, partition, columns).slice(first)


def checked_columns(columns: Iterable[str] | None) -> tuple[str, ...]:
    """The requested columns; all columns if `columns` is None. Raises ValueError for an unknown column."""
    wanted = COLUMNS if columns is None else tuple(columns)
    for name in wanted:
        if name not in COLUMNS:
            raise ValueError(f"unknown column {name!r}; the columns are {', '.join(COLUMNS)}")
    return wanted


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
    """Convert a `RecordBatch` from `Consumer.batches` to an Arrow record batch with all columns.

    `Consumer.arrow_batches` returns the same data two to three times as fast, as it creates no object per record.

    Keys and values must be bytes, as they are without deserializers; otherwise pyarrow raises ArrowTypeError.
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
