"""The numpy implementation of `column_codec.py`: gives the same bytes and records as the loops of `record.py`.

To decode, `batch_table` locates the records; `numpy_varints` then reads one field after another for all records of all
batches at once. A record that does not end where its length says is corrupt. This is checked last; until then fields
are only positions, so a corrupt length allocates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from minikafka.protocol.records.batch import Batch
from minikafka.protocol.records.batch_table import BatchTable, Sections, decompress_all, record_bounds, table_of
from minikafka.protocol.records.columns import Blobs, Columns
from minikafka.protocol.records.compression import Buffer
from minikafka.protocol.records.numpy_varints import Array, read_blobs, read_varints
from minikafka.protocol.records.record import CorruptRecords, Headers, decode_headers, encode_headers, varint

_VARINTS = [varint(size) for size in range(1 << 13)]
_ZERO = b"\x00"


class RecordPositions(NamedTuple):
    """The positions of the records of a table, read up to their keys.

    Attributes:
        sections: the decompressed payloads.
        ends: where each record must end.
        offsets, timestamps: the offset and timestamp of each record, int64; timestamps in ms.
        position: where the length of each record's key begins.
    """

    sections: Sections
    ends: Array
    offsets: Array
    timestamps: Array
    position: Array

    @property
    def buffer(self) -> Array:
        return np.frombuffer(self.sections.data or _ZERO, np.uint8)


def locate_records(table: BatchTable, max_size_bytes: int) -> RecordPositions:
    """Locate the records of a table and read the fields before their keys. Raises CorruptRecords."""
    sections = decompress_all(table, max_size_bytes)
    starts, ends = record_bounds(sections)
    buffer = np.frombuffer(sections.data or _ZERO, np.uint8)
    lengths, position = read_varints(buffer, starts)
    if lengths.min(initial=0) < 0:
        raise CorruptRecords(f"record length {lengths.min()} is negative")
    timestamp_deltas, position = read_varints(buffer, position + 1, 10)
    deltas, position = read_varints(buffer, position)
    counts = sections.counts
    _check_deltas(deltas, np.repeat(table.column("last_offset_delta"), counts), counts)
    offsets = deltas + np.repeat(table.base_offsets, counts)
    return RecordPositions(sections, ends, offsets, _timestamps(timestamp_deltas, table, counts), position)


def decode(batches: Sequence[Batch], max_size_bytes: int) -> Columns:
    """Decode the records of batches; see `column_codec.decode_columns`."""
    table = table_of(batches)
    found = locate_records(table, max_size_bytes)
    buffer, data = found.buffer, found.sections.data
    key_starts, key_ends, position = read_blobs(buffer, found.position, "key")
    value_starts, value_ends, position = read_blobs(buffer, position, "value")
    header_counts, after = read_varints(buffer, position)
    headers = _headers(data, header_counts, position, after)
    if not np.array_equal(after, found.ends):
        raise CorruptRecords("record does not end where its length says")
    types = table.timestamp_types
    return Columns(
        found.offsets.tolist(),
        found.timestamps.tolist(),
        lambda: _cut(data, key_starts, key_ends),
        lambda: _cut(data, value_starts, value_ends),
        headers,
        np.repeat(types, found.sections.counts).tolist() if types.any() else None,
    )


def _headers(data: Buffer, counts: Array, position: Array, after: Array) -> list[Headers] | None:
    """Decode the headers of each record, and set `after` to their ends. Usually few records have headers."""
    with_headers = np.flatnonzero(counts)
    if not with_headers.size:
        return None
    headers: list[Headers] = [()] * len(counts)
    data = bytes(data)
    try:
        for index in with_headers.tolist():
            headers[index], after[index] = decode_headers(data, int(position[index]))
    except IndexError:
        raise CorruptRecords("a record's headers extend past the end of its batch") from None
    return headers


def _check_deltas(deltas: Array, last: Array, counts: Array) -> None:
    before = np.empty_like(deltas)
    before[1:] = deltas[:-1]
    before[(np.cumsum(counts) - counts)[counts > 0]] = -1
    if ((deltas <= before) | (deltas > last)).any():
        raise CorruptRecords("record offsets are not increasing, or lie outside their batch")


def _timestamps(deltas: Array, table: BatchTable, counts: Array) -> Array:
    times = deltas + np.repeat(table.column("base_timestamp"), counts)
    types = table.timestamp_types
    if types.any():
        return np.where(np.repeat(types, counts), np.repeat(table.column("max_timestamp"), counts), times)
    return times


def _cut(data: Buffer, starts: Array, ends: Array) -> Blobs:
    nulls = starts > ends
    data = bytes(data)
    if not nulls.any():
        return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    if nulls.all():
        return [None] * len(starts)
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return [None if start > end else data[start:end] for start, end in pairs]


def encode(
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    headers: Sequence[Headers] | None,
) -> bytes:
    """Encode the payload of an uncompressed batch; see `column_codec.encode_columns`.

    The fields in front of each key, or of each value if there are no keys, are computed for all records at once, then
    sliced and joined with keys and values, which are copied only once.
    """
    count = len(values)
    base, offset_deltas = timestamps[0], np.arange(count, dtype=np.int64)
    timestamp_deltas = np.array(timestamps, np.int64) - base
    value_sizes = _sizes(values)
    key_sizes = np.full(count, -1, np.int64) if keys is None else _sizes(keys)
    tails = [encode_headers(one) if one else _ZERO for one in headers] if headers else None
    inner = [timestamp_deltas, offset_deltas, key_sizes, value_sizes]
    sizes = 1 + sum((_size(_zigzag(numbers)) for numbers in inner), start=np.zeros(count, np.int64))
    sizes += np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)
    sizes += 1 if tails is None else np.fromiter(map(len, tails), np.int64, count)
    fields = [sizes, np.zeros(count, np.int64), *inner]
    columns: list[Sequence[bytes]] = []
    if keys is None:
        columns = [_rows(fields), _filled(values)]
    else:
        columns = [_rows(fields[:-1]), _filled(keys), _varint_bytes(value_sizes), _filled(values)]
    columns.append([_ZERO] * count if tails is None else tails)
    flat: list[bytes] = [b""] * (count * len(columns))
    for index, column in enumerate(columns):
        flat[index :: len(columns)] = column
    return b"".join(flat)


def _sizes(blobs: Sequence[bytes | None]) -> Array:
    try:
        return np.fromiter(map(len, blobs), np.int64, len(blobs))  # type: ignore[arg-type]
    except TypeError:
        return np.array([-1 if blob is None else len(blob) for blob in blobs], np.int64)


def _filled(blobs: Sequence[bytes | None]) -> Sequence[bytes]:
    return [blob or b"" for blob in blobs] if None in blobs else blobs  # type: ignore[return-value]


def _varint_bytes(sizes: Array) -> list[bytes]:
    if sizes.max() < len(_VARINTS) and sizes.min() >= 0:
        return [_VARINTS[size] for size in sizes.tolist()]
    return [varint(size) for size in sizes.tolist()]


def _zigzag(numbers: Array) -> Array:
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def _size(zigzag: Array) -> Array:
    """The size of each varint in bytes."""
    sizes = np.ones(len(zigzag), np.int64)
    greatest = int(zigzag.max(initial=0))
    for shift in range(7, 64, 7):
        if greatest < 1 << shift:
            break
        sizes += zigzag >= np.uint64(1 << shift)
    return sizes


def varint_rows(fields: Sequence[Array]) -> tuple[Array, Array]:
    """The concatenated varints of each record's fields (int64), and their bounds: one more than there are records."""
    numbers = [_zigzag(field) for field in fields]
    sizes = [_size(number) for number in numbers]
    bounds = np.zeros(len(fields[0]) + 1, np.int64)
    np.cumsum(sum(sizes[1:], start=sizes[0]), out=bounds[1:])
    out = np.empty(bounds[-1], np.uint8)
    position = bounds[:-1]
    for number, size in zip(numbers, sizes, strict=True):
        _write(out, position, number, size)
        position = position + size
    return out, bounds


def varint_sizes(numbers: Array) -> Array:
    """The size in bytes of the varint of each number (int64)."""
    return _size(_zigzag(numbers))


def _rows(fields: Sequence[Array]) -> list[bytes]:
    """The concatenated varints of each record's fields."""
    out, bounds = varint_rows(fields)
    blob = out.tobytes()
    return [blob[start:end] for start, end in pairwise(bounds.tolist())]


def _write(out: Array, position: Array, number: Array, size: Array) -> None:
    out[position] = (number & np.uint64(0x7F)).astype(np.uint8) | (size > 1).astype(np.uint8) << 7
    for index in range(1, int(size.max(initial=0))):
        longer = np.flatnonzero(size > index)
        byte = ((number[longer] >> np.uint64(7 * index)) & np.uint64(0x7F)).astype(np.uint8)
        out[position[longer] + index] = byte | (size[longer] > index + 1).astype(np.uint8) << 7


def digest_keys(
    batches: Sequence[Batch], max_size_bytes: int, digest_of: Callable[[bytes], bytes]
) -> tuple[bytes, Array]:
    """Compute the digests of the keys. Returns the concatenated digests, and the offsets of the records with a key.

    Raises CorruptRecords.
    """
    found = locate_records(table_of(batches), max_size_bytes)
    starts, ends, _ = read_blobs(found.buffer, found.position, "key")
    if (np.maximum(starts, ends) >= found.ends).any():
        raise CorruptRecords("record extends past its end")
    offsets, keyed = found.offsets, starts <= ends
    if not keyed.all():
        starts, ends, offsets = starts[keyed], ends[keyed], offsets[keyed]
    return _digests(bytes(found.sections.data), starts, ends, digest_of), offsets


def _digests(data: bytes, starts: Array, ends: Array, digest_of: Callable[[bytes], bytes]) -> bytes:
    return b"".join(map(digest_of, map(data.__getitem__, map(slice, starts.tolist(), ends.tolist()))))


class KeyColumns(NamedTuple):
    """The columns of records that the log cleaner uses; see `storage.keyed_records`."""

    firsts: list[int]
    offsets: list[int]
    timestamps: list[int]
    digests: bytes
    keyless: list[int]
    tombstones: list[int]
    data: Buffer
    starts: list[int]
    ends: list[int]


def locate_keys(
    batches: Sequence[Batch], max_size_bytes: int, digest_of: Callable[[bytes], bytes] | None
) -> KeyColumns:
    """Read everything of records except their values and headers; `digest_of` is applied to each key, if given.

    Raises CorruptRecords.
    """
    table = table_of(batches)
    found = locate_records(table, max_size_bytes)
    buffer, data = found.buffer, bytes(found.sections.data)
    starts = np.empty_like(found.ends)
    counts = found.sections.counts
    starts[1:] = found.ends[:-1]
    filled = np.flatnonzero(counts)
    starts[(np.cumsum(counts) - counts)[filled]] = found.sections.starts[filled]
    key_starts, key_ends, position = read_blobs(buffer, found.position, "key")
    value_starts, value_ends, position = read_blobs(buffer, position, "value")
    if (position >= found.ends).any():
        raise CorruptRecords("record extends past its end")
    keyless = key_starts > key_ends
    digests = b"" if digest_of is None else _digests(data, key_starts, np.maximum(key_starts, key_ends), digest_of)
    return KeyColumns(
        [0, *np.cumsum(counts).tolist()],
        found.offsets.tolist(),
        found.timestamps.tolist(),
        digests,
        np.flatnonzero(keyless).tolist(),
        np.flatnonzero(value_starts > value_ends).tolist(),
        data,
        starts.tolist(),
        found.ends.tolist(),
    )
