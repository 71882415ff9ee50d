"""The numpy half of `columns.py`: the same bytes and the same records as the loops of `record.py`.

Decoding. The chain of record starts is the only part that must go step by step, as each record's length
says where the next begins. All else is done field by field for all records of all batches at once:
`_varints` reads one varint at each of many positions, the first byte of all, then further bytes of those
that go on. Reads beyond the end are clipped to the last byte and found out afterwards: a record that does
not end where its length says is corrupt, and its fields were positions only, nothing was allocated by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from minikafka.protocol.records.batch import Batch
from minikafka.protocol.records.columns import Blobs, Columns
from minikafka.protocol.records.compression import Codec, decompress
from minikafka.protocol.records.record import (
    RECORD_SIZE_MIN,
    CorruptRecords,
    Headers,
    decode_headers,
    encode_headers,
    read_varint,
    varint,
)

Array = np.ndarray[Any, Any]
_VARINTS = [varint(size) for size in range(1 << 13)]
_NOTHING = b"\x00"
_LOW_HALF = [((byte & 0x7F) >> 1) + 2 for byte in range(256)]
"""What the first byte of a length of two bytes adds to the distance to the next record."""


_SIGNED = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(256)], np.int64)
"""The values of varints of one byte."""


def decode(batches: Sequence[Batch], max_size_bytes: int) -> Columns:
    """See `columns.decode_columns`."""
    data, sections = _sections(batches, max_size_bytes)
    starts, ends = _chain(data, sections)
    counts = [batch.record_count for batch in batches]
    buffer = np.frombuffer(data, np.uint8)
    position = np.array(starts, np.int64)
    lengths, position = _varints(buffer, position, 5)
    if lengths.min(initial=0) < 0:
        raise CorruptRecords(f"a record of {lengths.min()} bytes")
    late, position = _varints(buffer, position + 1, 10)
    deltas, position = _varints(buffer, position, 5)
    key_starts, key_ends, position = _blobs(buffer, position, "key")
    value_starts, value_ends, position = _blobs(buffer, position, "value")
    header_counts, after = _varints(buffer, position, 5)
    headers = _headers(data, header_counts, position, after)
    if not np.array_equal(after, np.array(ends, np.int64)):
        raise CorruptRecords("a record does not end where its length says")
    _check_deltas(deltas, batches, counts)
    offsets = deltas + np.repeat(np.array([batch.base_offset for batch in batches], np.int64), counts)
    types = [batch.timestamp_type for batch in batches]
    return Columns(
        offsets.tolist(),
        _timestamps(late, batches, counts).tolist(),
        lambda: _cut(data, key_starts, key_ends),
        lambda: _cut(data, value_starts, value_ends),
        headers,
        np.repeat(types, counts).tolist() if any(types) else None,
    )


def _sections(batches: Sequence[Batch], max_size_bytes: int) -> tuple[bytes, list[tuple[int, int, int]]]:
    """All payloads, decompressed, in one piece, and (start, end, record count) of each."""
    parts: list[bytes | bytearray | memoryview] = []
    sections: list[tuple[int, int, int]] = []
    end = 0
    for batch in batches:
        part: bytes | bytearray | memoryview = batch.payload
        if batch.codec is not Codec.NONE:
            part = decompress(batch.codec, part, max_size_bytes - end)
        start, end = end, end + len(part)
        if not 0 <= batch.record_count <= len(part) // RECORD_SIZE_MIN:
            raise CorruptRecords(f"a batch claims {batch.record_count} records in {len(part)} bytes")
        sections.append((start, end, batch.record_count))
        parts.append(part)
    return b"".join(parts), sections


def _chain(data: bytes, sections: Iterable[tuple[int, int, int]]) -> tuple[list[int], list[int]]:
    """Where each record starts and ends. Whether a length is negative is left to `decode`."""
    starts: list[int] = []
    ends: list[int] = []
    append, low_half = starts.append, _LOW_HALF
    for position, end, count in sections:
        first = len(starts)
        try:
            for _ in range(count):
                append(position)
                byte = data[position]
                if byte < 0x80:
                    position += (byte >> 1) + 1
                elif (high := data[position + 1]) < 0x80:
                    position += low_half[byte] + (high << 6)
                else:
                    length, position = read_varint(data, position)
                    position += abs(length)
        except IndexError:
            position = -1
        if position != end:
            raise CorruptRecords(f"the {count} records of a batch do not fill it to the end")
        ends += starts[first + 1 :]
        if count:
            ends.append(end)
    return starts, ends


def _varints(buffer: Array, position: Array, size_bytes_max: int) -> tuple[Array, Array]:
    """Read a varint at each position: the signed values, and the positions behind them.

    Nearly all take one byte or two, which whole arrays do quicker than the general way through indexes.
    """
    first = buffer.take(position, mode="clip")
    longer = first >= 0x80
    if not longer.any():
        return _SIGNED.take(first), position + 1
    second = buffer.take(position + 1, mode="clip")
    if (longer & (second >= 0x80)).any():
        return _long_varints(buffer, position, size_bytes_max)
    number = first.astype(np.int64)
    number += (second.astype(np.int64) << 7) * longer - 128 * longer
    return (number >> 1) ^ -(number & 1), position + 1 + longer


def _long_varints(buffer: Array, position: Array, size_bytes_max: int) -> tuple[Array, Array]:
    first = buffer.take(position, mode="clip")
    number = (first & 0x7F).astype(np.uint64)
    position = position + 1
    going_on = np.flatnonzero(first & 0x80)
    for size in range(1, size_bytes_max):
        if not going_on.size:
            break
        byte = buffer.take(position[going_on], mode="clip")
        number[going_on] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * size)
        position[going_on] += 1
        going_on = going_on[byte >= 0x80]
    if going_on.size:
        raise CorruptRecords(f"a varint is longer than {size_bytes_max} bytes")
    if size_bytes_max <= 5:
        number &= np.uint64(0xFFFFFFFF)
    return (number >> np.uint64(1)).astype(np.int64) ^ -(number & np.uint64(1)).astype(np.int64), position


def _blobs(buffer: Array, position: Array, what: str) -> tuple[Array, Array, Array]:
    """(starts, ends, positions behind); of null the end lies before the start."""
    sizes, starts = _varints(buffer, position, 5)
    if sizes.min(initial=0) < -1:
        raise CorruptRecords(f"a {what} of {sizes.min()} bytes")
    ends = starts + sizes
    return starts, ends, np.maximum(starts, ends)


def _headers(data: bytes, counts: Array, position: Array, after: Array) -> list[Headers] | None:
    """Each record's headers, and in `after` where they end; records that have some are few as a rule."""
    having = np.flatnonzero(counts)
    if not having.size:
        return None
    headers: list[Headers] = [()] * len(counts)
    try:
        for index in having.tolist():
            headers[index], after[index] = decode_headers(data, int(position[index]))
    except IndexError:
        raise CorruptRecords("a record's headers go past the end of its batch") from None
    return headers


def _check_deltas(deltas: Array, batches: Sequence[Batch], counts: list[int]) -> None:
    last = np.repeat([batch.last_offset_delta for batch in batches], counts)
    before = np.empty_like(deltas)
    before[1:] = deltas[:-1]
    starts = np.cumsum([0, *counts[:-1]])
    before[starts[np.array(counts) > 0]] = -1
    if ((deltas <= before) | (deltas > last)).any():
        raise CorruptRecords("a record's offset does not follow the one before it, or lies outside its batch")


def _timestamps(late: Array, batches: Sequence[Batch], counts: list[int]) -> Array:
    times = late + np.repeat(np.array([batch.base_timestamp for batch in batches], np.int64), counts)
    kinds = [batch.timestamp_type for batch in batches]
    if any(kinds):
        appended = np.array([batch.max_timestamp for batch in batches], np.int64)
        return np.where(np.repeat(kinds, counts), np.repeat(appended, counts), times)
    return times


def _cut(data: bytes, starts: Array, ends: Array) -> Blobs:
    nulls = starts > ends
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
    """The payload of an uncompressed batch; see `columns.encode_columns`.

    What stands before each key, or before each value where there are no keys, is computed for all records at
    once, cut apart and joined with keys and values, which are never copied but for that.
    """
    count = len(values)
    base, deltas = timestamps[0], np.arange(count, dtype=np.int64)
    late = np.array(timestamps, np.int64) - base
    value_sizes = _sizes(values)
    key_sizes = np.full(count, -1, np.int64) if keys is None else _sizes(keys)
    tails = [encode_headers(one) if one else _NOTHING for one in headers] if headers else None
    inner = [late, deltas, key_sizes, value_sizes]
    sizes = 1 + sum((_size(_zigzag(numbers)) for numbers in inner), start=np.zeros(count, np.int64))
    sizes += np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)
    sizes += 1 if tails is None else np.fromiter(map(len, tails), np.int64, count)
    fields = [sizes, np.zeros(count, np.int64), *inner]
    columns: list[Sequence[bytes]] = []
    if keys is None:
        columns = [_rows(fields), _filled(values)]
    else:
        columns = [_rows(fields[:-1]), _filled(keys), _varint_bytes(value_sizes), _filled(values)]
    columns.append([_NOTHING] * count if tails is None else tails)
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
    """Bytes that the varints take."""
    sizes = np.ones(len(zigzag), np.int64)
    greatest = int(zigzag.max())
    for shift in range(7, 64, 7):
        if greatest < 1 << shift:
            break
        sizes += zigzag >= np.uint64(1 << shift)
    return sizes


def _rows(fields: Sequence[Array]) -> list[bytes]:
    """For each record its fields' varints, one behind another."""
    numbers = [_zigzag(field) for field in fields]
    sizes = [_size(number) for number in numbers]
    bounds = np.zeros(len(fields[0]) + 1, np.int64)
    np.cumsum(sum(sizes[1:], start=sizes[0]), out=bounds[1:])
    out = np.empty(bounds[-1], np.uint8)
    position = bounds[:-1]
    for number, size in zip(numbers, sizes, strict=True):
        _write(out, position, number, size)
        position = position + size
    blob = out.tobytes()
    return [blob[start:end] for start, end in pairwise(bounds.tolist())]


def _write(out: Array, position: Array, number: Array, size: Array) -> None:
    out[position] = (number & np.uint64(0x7F)).astype(np.uint8) | (size > 1).astype(np.uint8) << 7
    for index in range(1, int(size.max())):
        longer = np.flatnonzero(size > index)
        byte = ((number[longer] >> np.uint64(7 * index)) & np.uint64(0x7F)).astype(np.uint8)
        out[position[longer] + index] = byte | (size[longer] > index + 1).astype(np.uint8) << 7
