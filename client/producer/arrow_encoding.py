"""Encodes Arrow columns into record batches, many batches at a time. Requires pyarrow and numpy.

    payload = encode(ArrowRecords(keys, values, timestamps, headers), firsts)
    batch = payload.batch(0, codec=Codec.ZSTD, producer_id=7, producer_epoch=0, base_sequence=0)

The module is the counterpart of `client.consumer.arrow_batches`, and the Spark sink uses it. No object is created for a
record: the numbers of all records are encoded as varints with numpy, and Arrow joins them with keys, values and headers
in one pass over the bytes. The result equals that of `protocol.records.batch.encode_batch`, byte for byte.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minikafka.protocol.records.batch import PLAIN, BatchHeader, Span, assemble_parts, codec_of
from minikafka.protocol.records.compression import Buffer, Codec
from minikafka.protocol.records.numpy_codec import varint_rows, varint_sizes
from minikafka.protocol.records.numpy_varints import Array

BLOB = pa.large_binary()
RECORD_OVERHEAD_MAX = 36
"""The maximum bytes of a record that are neither key, value nor headers: at most six varints and the attributes."""
_BATCH_OVERHEAD = 61 + 21
"""The bytes of a batch header, and of a record without its parts and their lengths
(DefaultRecordBatch.estimateBatchSizeUpperBound)."""
_EMPTY = pa.scalar(b"", BLOB)


class ArrowRecords(NamedTuple):
    """Records in columns of equal length.

    Attributes:
        keys: `large_binary`; None if no record has a key.
        values: `large_binary`.
        timestamps: ms since 1970, int64.
        headers: a list of structs `key` (string) and `value` (binary) for each record; None if no record has any.
    """

    keys: pa.Array | None
    values: pa.Array
    timestamps: Array
    headers: pa.Array | None


class NullHeaderKey(ValueError):
    """Raised for a header without a key.

    Attributes:
        record: the index of the record that has the header.
    """

    def __init__(self, record: int) -> None:
        super().__init__("a header has no key: Kafka does not permit null as the key of a header")
        self.record = record

    def __reduce__(self) -> tuple[type[NullHeaderKey], tuple[int]]:
        return type(self), (self.record,)


class Payload(NamedTuple):
    """Encoded records of several batches.

    Attributes:
        data: the bytes of all records.
        bounds: the position in `data` where each record starts, and the end of the last record.
        firsts: the index of the first record of each batch, and the number of records.
        timestamps: the timestamp of each record, in ms since 1970.
    """

    data: memoryview
    bounds: Array
    firsts: Array
    timestamps: Array

    def count(self, index: int) -> int:
        """The number of records of a batch."""
        return int(self.firsts[index + 1] - self.firsts[index])

    def batch(self, index: int, header: BatchHeader = PLAIN, *, level: int | None = None) -> bytes:
        """One encoded batch as bytes."""
        return b"".join(self.parts(index, header, level=level))

    def parts(self, index: int, header: BatchHeader = PLAIN, *, level: int | None = None) -> tuple[bytes, Buffer]:
        """The header of one batch, with its checksum, and its records, which are not copied.

        Raises ValueError for numbers out of the format's range.
        """
        first, end = int(self.firsts[index]), int(self.firsts[index + 1])
        timestamps = self.timestamps[first:end]
        data = self.data[int(self.bounds[first]) : int(self.bounds[end])]
        is_plain = codec_of(header.attributes) is Codec.NONE
        span = Span(end - first - 1, int(timestamps[0]), int(timestamps.max()))
        return assemble_parts(data if is_plain else bytes(data), end - first, header, span, level=level)


def blob_sizes(blobs: pa.Array) -> Array:
    """The sizes of binary values in bytes, int64; -1 for null."""
    return np.asarray(pc.fill_null(pc.cast(pc.binary_length(blobs), pa.int64()), -1))


def header_sizes(headers: pa.Array) -> Array:
    """The size in bytes of each record's header keys and values, int64, with five bytes for each length."""
    counts = _header_counts(headers)
    flat = headers.flatten()
    each = 10 + np.maximum(blob_sizes(pc.struct_field(flat, "key")), 0)
    each = each + np.maximum(blob_sizes(pc.struct_field(flat, "value")), 0)
    totals = np.concatenate(([0], np.cumsum(each)))
    ends = np.cumsum(counts)
    return np.asarray(totals[ends] - totals[ends - counts])


def size_alone(records: ArrowRecords, index: int) -> int:
    """The size in bytes of a batch with a single record, as the Java producer estimates it before sending."""
    key = None if records.keys is None else records.keys[index].as_py()
    value = records.values[index].as_py()
    headers = () if records.headers is None else records.headers[index].as_py() or ()
    parts = [((one["key"] or "").encode(), one["value"]) for one in headers if one is not None]
    texts = [key, value, *(text for pair in parts for text in pair)]
    sizes = np.array([len(headers), *(-1 if text is None else len(text) for text in texts)], np.int64)
    return int(_BATCH_OVERHEAD + varint_sizes(sizes).sum() + np.maximum(sizes[1:], 0).sum())


def encode(records: ArrowRecords, firsts: Array) -> Payload:
    """Encode records; each record whose index is in `firsts` (increasing, beginning with 0) begins a batch.

    Raises NullHeaderKey.
    """
    count = len(records.values)
    firsts = np.append(firsts, count)
    lengths = np.diff(firsts)
    offset_deltas = np.arange(count, dtype=np.int64) - np.repeat(firsts[:-1], lengths)
    timestamp_deltas = records.timestamps - np.repeat(records.timestamps[firsts[:-1]], lengths)
    value_sizes = blob_sizes(records.values)
    key_sizes = np.full(count, -1, np.int64) if records.keys is None else blob_sizes(records.keys)
    tail_sizes, tails = _tails(records.headers, count)
    inner = [timestamp_deltas, offset_deltas, key_sizes, value_sizes]
    sizes = 1 + tail_sizes + np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)
    for numbers in inner:
        sizes = sizes + varint_sizes(numbers)
    fields = [sizes, np.zeros(count, np.int64), *inner]
    if records.keys is None:
        parts = [_varint_array(fields), records.values, *tails]
    else:
        parts = [_varint_array(fields[:-1]), records.keys, _varint_array([value_sizes]), records.values, *tails]
    data, bounds = _joined(parts)
    return Payload(data, bounds, firsts, records.timestamps)


def _header_counts(headers: pa.Array) -> Array:
    return np.asarray(pc.fill_null(pc.cast(pc.list_value_length(headers), pa.int64()), 0))


def _tails(headers: pa.Array | None, count: int) -> tuple[Array, list[Any]]:
    """The sizes of the bytes after each record's value (header count and headers), and the columns with these bytes."""
    if headers is None or not (counts := _header_counts(headers)).any():
        return np.ones(count, np.int64), [pa.scalar(b"\x00", BLOB)]
    flat = headers.flatten()
    names = pc.struct_field(flat, "key").cast(BLOB)
    if names.null_count:
        first = names.is_null().index(True).as_py()
        raise NullHeaderKey(int(np.searchsorted(np.cumsum(counts), first, side="right")))
    values = pc.struct_field(flat, "value").cast(BLOB)
    parts = [_varint_array([blob_sizes(names)]), names, _varint_array([blob_sizes(values)]), values]
    data, bounds = _joined(parts)
    ends = np.cumsum(counts)
    cuts = bounds[np.concatenate(([0], ends))]
    bodies = pa.Array.from_buffers(BLOB, count, [None, pa.py_buffer(cuts), pa.py_buffer(data)])
    return varint_sizes(counts) + np.diff(cuts), [_varint_array([counts]), bodies]


def _varint_array(fields: list[Array]) -> pa.Array:
    out, bounds = varint_rows(fields)
    return pa.Array.from_buffers(BLOB, len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(out)])


def _joined(parts: list[Any]) -> tuple[memoryview, Array]:
    """The concatenated parts of all rows, and the bounds of the rows; null counts as empty."""
    joined = pc.binary_join_element_wise(*parts, _EMPTY, null_handling="replace", null_replacement="")
    _, bounds, data = joined.buffers()
    return memoryview(data or b""), np.frombuffer(bounds, np.int64)[joined.offset : joined.offset + len(joined) + 1]
