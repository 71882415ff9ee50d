"""Encodes and decodes records (`Record`) with plain loops: the reference for the faster numpy code.

The layout is that of a record in a batch of format v2 (KIP-98, Kafka's `DefaultRecord`)::

    length: varint  attributes: int8 = 0  timestamp delta: varlong  offset delta: varint
    key length: varint  key  value length: varint  value  header count: varint  headers…

where a length of -1 is null. `numpy_codec.py` does the same for many records at once with numpy; it is tested against
these loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Headers = Sequence[tuple[str, bytes | None]]
RECORD_SIZE_MIN = 7
"""The minimum size of a record: seven fields of one byte."""
RECORD_OVERHEAD_BYTES = 21
"""The maximum size of a record's lengths, timestamp and offset (Kafka's `DefaultRecord.MAX_RECORD_OVERHEAD`)."""
_TABLE_SIZE = 1 << 13
_WIDE_TIMESTAMP = 1 << 62


class CorruptRecords(ValueError):
    """Bytes are not valid record batches, because of an error of the sender or of the disk."""


class Record(NamedTuple):
    """A record; `timestamp` is in milliseconds since the epoch, -1 if there is none.

    For `encode_batch` a negative offset means the next offset; other offsets are relative to the first record's.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def varint(value: int) -> bytes:
    """Encode a signed 64-bit number as a zigzag varint; larger numbers overflow as in Java."""
    number = (value << 1) ^ (value >> 63)
    if number < 0x80:
        return _BYTES[number]
    if number >= 1 << 64:
        return varint(((value + (1 << 63)) & 0xFFFFFFFFFFFFFFFF) - (1 << 63))
    out = bytearray()
    while number > 0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, position: int, size_bytes_max: int = 5) -> tuple[int, int]:
    """Decode a zigzag varint; return its value and the position after it.

    `size_bytes_max` is 5 for a varint and 10 for a varlong. Raises IndexError at the end of `data`, CorruptRecords for
    a longer varint.
    """
    first = data[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    second = data[position + 1]
    if second < 0x80:
        number = first & 0x7F | second << 7
        return (number >> 1) ^ -(number & 1), position + 2
    return _read_long_varint(data, position, size_bytes_max)


def _read_long_varint(data: bytes, position: int, size_bytes_max: int) -> tuple[int, int]:
    number = shift = 0
    for index in range(position, position + size_bytes_max):
        byte = data[index]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            number &= 0xFFFFFFFFFFFFFFFF if size_bytes_max > 5 else 0xFFFFFFFF
            return (number >> 1) ^ -(number & 1), index + 1
        shift += 7
    raise CorruptRecords(f"varint at byte {position} exceeds {size_bytes_max} bytes")


_BYTES = [bytes((number,)) for number in range(256)]
_VARINTS = [varint(value) for value in range(_TABLE_SIZE)]
_LOW_HALF = [((byte & 0x7F) >> 1) + 2 for byte in range(256)]
"""The contribution of the first byte of a two-byte length to the distance to the next record."""
_ZIGZAG = [(number >> 1) ^ -(number & 1) for number in range(128)]


def record_starts(data: bytes, count: int) -> list[int]:
    """The starts of the first `count` records of `data`, followed by the end of the last record.

    Only the lengths of the records are read. There are fewer starts if the data end before the length of a record. The
    last end may lie beyond the data. A negative length is not detected.
    """
    starts, position = [0], 0
    append, low_half = starts.append, _LOW_HALF
    try:
        for _ in range(count):
            byte = data[position]
            if byte < 0x80:
                position += (byte >> 1) + 1
            elif (high := data[position + 1]) < 0x80:
                position += low_half[byte] + (high << 6)
            else:
                length, position = read_varint(data, position)
                position += abs(length)
            append(position)
    except IndexError:
        pass
    return starts


def encode_records(records: Sequence[Record], deltas: Sequence[int], base_timestamp: int) -> bytes:
    """Encode the records of an uncompressed batch, one after the other; `deltas` are their offset deltas."""
    parts: list[bytes] = []
    extend = parts.extend
    table, table_size = _VARINTS, _TABLE_SIZE
    for (_, timestamp, key, value, headers), delta in zip(records, deltas, strict=True):
        late = timestamp - base_timestamp
        head = table[late] if 0 <= late < table_size else varint(late)
        head += table[delta] if delta < table_size else varint(delta)
        size = 1 + len(head)
        if key is None:
            head, key = head + b"\x01", b""
            size += 1
        else:
            length = len(key)
            prefix = table[length] if length < table_size else varint(length)
            head += prefix
            size += len(prefix) + length
        if value is None:
            middle, value = b"\x01", b""
            size += 1
        else:
            length = len(value)
            middle = table[length] if length < table_size else varint(length)
            size += len(middle) + length
        tail = encode_headers(headers) if headers else b"\x00"
        size += len(tail)
        length_prefix = table[size] if size < table_size else varint(size)
        extend((length_prefix, b"\x00", head, key, middle, value, tail))
    return b"".join(parts)


def encode_headers(headers: Headers) -> bytes:
    """Encode the headers of a record, with their count."""
    parts = [varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (varint(len(encoded)), encoded)
        parts += (b"\x01",) if value is None else (varint(len(value)), value)
    return b"".join(parts)


def decode_records(
    data: bytes,
    count: int,
    *,
    base_offset: int,
    base_timestamp: int,
    last_offset_delta: int,
    log_append_time: int | None = None,
) -> list[Record]:
    """Decode the records of an uncompressed batch.

    `log_append_time`, if given, is the timestamp of every record (`message.timestamp.type=LogAppendTime`).
    Raises CorruptRecords if a length, count or offset is inconsistent, or bytes are left over.
    """
    if not 0 <= count <= len(data) // RECORD_SIZE_MIN:
        raise CorruptRecords(f"batch claims {count} records in {len(data)} bytes")
    try:
        records = _decode(data, count, base_offset, base_timestamp, last_offset_delta)
    except IndexError:
        raise CorruptRecords(f"batch of {count} records ends within a record") from None
    if log_append_time is not None:
        return [record._replace(timestamp=log_append_time) for record in records]
    return records


def _decode(data: bytes, count: int, base_offset: int, base_timestamp: int, last_delta: int) -> list[Record]:
    """Decode records in a loop. Varints of one byte, which are the most frequent, are decoded without a call."""
    records: list[Record] = []
    append, new, zigzag, position, size, before = records.append, tuple.__new__, _ZIGZAG, 0, len(data), -1
    wide = not -_WIDE_TIMESTAMP < base_timestamp < _WIDE_TIMESTAMP
    key: bytes | None
    value: bytes | None
    for _ in range(count):
        byte = data[position]
        length, position = (zigzag[byte], position + 1) if byte < 0x80 else read_varint(data, position)
        end = position + length
        if end > size:
            raise CorruptRecords(f"record of {length} bytes extends past the end of its batch")
        byte = data[position + 1]
        if byte < 0x80:
            late, position = zigzag[byte], position + 2
        else:
            late, after = read_varint(data, position + 1, 10)
            wide, position = wide or after > position + 9, after
        byte = data[position]
        delta, position = (zigzag[byte], position + 1) if byte < 0x80 else read_varint(data, position)
        if not before < delta <= last_delta:
            raise CorruptRecords(f"offset delta {delta}; it must be {before + 1} to {last_delta}")
        before, byte = delta, data[position]
        length, position = (zigzag[byte], position + 1) if byte < 0x80 else read_varint(data, position)
        after = position + length
        if length >= 0:
            key, position = data[position:after], after
        else:
            key = _null(length, "key")
        byte = data[position]
        length, position = (zigzag[byte], position + 1) if byte < 0x80 else read_varint(data, position)
        after = position + length
        if length >= 0:
            value, position = data[position:after], after
        else:
            value = _null(length, "value")
        if data[position]:
            headers, position = decode_headers(data, position)
        else:
            headers, position = (), position + 1
        if position != end:
            raise CorruptRecords(f"record ends at byte {position}, but by its length at {end}")
        append(new(Record, (base_offset + delta, base_timestamp + late, key, value, headers)))
    if position != size:
        raise CorruptRecords(f"{size - position} bytes are left over after the {count} records of a batch")
    return [_wrapped(record) for record in records] if wide else records


def _null(length: int, what: str) -> bytes | None:
    if length == -1:
        return None
    raise CorruptRecords(f"{what} length {length} is negative")


def _wrapped(record: Record) -> Record:
    """The record with its timestamp as a signed 64-bit number: the sum of base and delta overflows as in Java."""
    return record._replace(timestamp=((record.timestamp + (1 << 63)) & 0xFFFFFFFFFFFFFFFF) - (1 << 63))


def decode_headers(data: bytes, position: int) -> tuple[Headers, int]:
    """Decode the headers of a record; return them and the position after them. Raises IndexError at the data's end."""
    count, position = read_varint(data, position)
    if not 0 <= count <= (len(data) - position) // 2:
        raise CorruptRecords(f"record claims {count} headers in {len(data) - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = read_varint(data, position)
        if length < 0:
            raise CorruptRecords("header key is null")
        name = data[position : position + length]
        length, position = read_varint(data, position + length)
        if length < -1:
            raise CorruptRecords(f"header value length {length} is negative")
        value = None if length < 0 else data[position : position + length]
        position += max(length, 0)
        headers.append((name.decode(errors="replace"), value))
    return headers, position
