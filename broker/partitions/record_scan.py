"""Scans the records of a produced batch: boundaries, offset deltas, timestamps, null keys. Pure.

No object is made for a record or a header. The functions are generators that yield after a bounded amount of work,
since a batch of a few kilobytes can hold millions of empty headers: the caller lets other tasks run, and continues.
They have the broker's only loops over produced records, written for speed.
"""

from collections.abc import Generator
from typing import NamedTuple

from minikafka.protocol.errors import InvalidRecordError

RECORDS_AT_ONCE = HEADERS_AT_ONCE = 4096
"""Records, or headers, that are scanned between two pauses: 4 ms, or 16 ms if all numbers have the greatest length."""
VARINT_BYTES_MAX, VARLONG_BYTES_MAX = 5, 10
"""The largest sizes of a number of 32 bits, as all but the timestamp delta, and of 64 bits."""
FEW_HEADERS = 0x7F
"""The largest zigzag-encoded number of headers that fits in one byte."""

Buffer = bytes | memoryview


class ScanResult(NamedTuple):
    """The result of a scan: the largest timestamp delta, and the number of records with a null key."""

    max_timestamp_delta: int
    null_keys: int


class Bad(NamedTuple):
    """A record that the topic's settings forbid: its number, and its timestamp delta, or None if its key is missing."""

    number: int
    timestamp_delta: int | None


def scan(payload: Buffer, count: int, bound: int) -> Generator[None, None, ScanResult]:
    """Check the boundaries and offset deltas (0, 1, 2 …) of up to `bound` of `count` records, as in `DefaultRecord`.

    Raises:
        InvalidRecordError: A record is malformed.
    """
    position, null_keys, latest, headers_seen = 0, 0, -(2**63), 0
    end = min(count, bound)
    try:
        for start in range(0, end, RECORDS_AT_ONCE):
            if start:
                yield
            for index in range(start, min(end, start + RECORDS_AT_ONCE)):
                size, position = payload[position], position + 1
                if size > 0x7F:
                    size, position = _long_varint(payload, size, position)
                record_end = position + (size >> 1)
                delta, position = payload[position + 1], position + 2  # past the attributes, always 0
                if delta > 0x7F:
                    delta, position = _long_varint(payload, delta, position, VARLONG_BYTES_MAX)
                latest = max(latest, (delta >> 1) ^ -(delta & 1))
                offset, position = payload[position], position + 1
                if offset > 0x7F:
                    offset, position = _long_varint(payload, offset, position)
                key, position = payload[position], position + 1
                if key > 0x7F:
                    key, position = _long_varint(payload, key, position)
                if key == 1:
                    null_keys += 1
                else:
                    position += key >> 1
                value, position = payload[position], position + 1
                if value > 0x7F:
                    value, position = _long_varint(payload, value, position)
                if value != 1:
                    position += value >> 1
                headers, position = payload[position], position + 1
                if 0 < headers <= FEW_HEADERS and headers_seen < HEADERS_AT_ONCE and not headers & 1:
                    headers_seen += headers >> 1
                    position = _skip_some_headers(payload, headers >> 1, position, index)
                elif headers:
                    headers_seen, position = yield from _skip_headers(payload, headers, position, index, headers_seen)
                negative = size & 1 or (key & 1 and key > 1) or (value & 1 and value > 1)
                if position != record_end or offset != index << 1 or negative:
                    raise _malformed_record(index, size, offset, key, value)
    except IndexError:
        raise InvalidRecordError(f"The batch ends within its records; it claims {count}") from None
    if position > len(payload) or (count <= bound and position < len(payload)):
        raise InvalidRecordError(f"the batch's {count} records end at {position} of {len(payload)} bytes")
    return ScanResult(latest, null_keys)


def forbidden_records(
    payload: Buffer, count: int, *, delta_min: int, delta_max: int, exempt: int, keys_needed: bool, most: int
) -> Generator[None, None, tuple[int, list[Bad]]]:
    """Find records of a scanned batch whose timestamp delta is out of bounds and not `exempt`, or which lack a key.

    Returns:
        The number of forbidden records, and the first `most` of them.
    """
    position, found, bad = 0, 0, list[Bad]()
    for index in range(count):
        if index and index % RECORDS_AT_ONCE == 0:
            yield
        size, position = _varint(payload, position)
        delta, after = _varint(payload, position + 1, VARLONG_BYTES_MAX)
        position += size >> 1
        delta = (delta >> 1) ^ -(delta & 1)
        no_key = False
        if keys_needed:
            _, after = _varint(payload, after)
            no_key = payload[after] == 1
        if no_key or (not delta_min <= delta <= delta_max and delta != exempt):
            found += 1
            if found <= most:
                bad.append(Bad(index, None if no_key else delta))
    return found, bad


def _varint(payload: Buffer, position: int, bytes_max: int = VARINT_BYTES_MAX) -> tuple[int, int]:
    value = payload[position]
    return (value, position + 1) if value <= 0x7F else _long_varint(payload, value, position + 1, bytes_max)


def _long_varint(payload: Buffer, value: int, position: int, bytes_max: int = VARINT_BYTES_MAX) -> tuple[int, int]:
    """Read the rest of a varint whose first byte is `value`; the result is still zigzag-encoded.

    As for consumers, bits beyond the 32 or 64 of the number do not count.
    """
    value, byte = value & 0x7F, payload[position]
    if byte < 0x80:
        return value | byte << 7, position + 1
    for count in range(1, bytes_max):
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value & (0xFFFFFFFF if bytes_max == VARINT_BYTES_MAX else 0xFFFFFFFFFFFFFFFF), position
    raise InvalidRecordError(f"A variable length number has more than {bytes_max} bytes")


def _skip_headers(
    payload: Buffer, count: int, position: int, index: int, seen: int
) -> Generator[None, None, tuple[int, int]]:
    """Skip the headers of a record; returns `seen`, the headers scanned since the last pause, and the position."""
    if count > 0x7F:
        count, position = _long_varint(payload, count, position)
    if count & 1 or count >> 1 > len(payload) - position:
        raise InvalidRecordError(f"Found invalid number of record headers in record {index}")
    left = count >> 1
    while left:
        if seen >= HEADERS_AT_ONCE:
            yield
            seen = 0
        now = min(left, HEADERS_AT_ONCE - seen)
        position = _skip_some_headers(payload, now, position, index)
        left, seen = left - now, seen + now
    return seen, position


def _skip_some_headers(payload: Buffer, count: int, position: int, index: int) -> int:
    for _ in range(count):
        for what in ("key", "value"):
            size, position = payload[position], position + 1
            if size > 0x7F:
                size, position = _long_varint(payload, size, position)
            if not size & 1:
                position += size >> 1
            elif size != 1 or what == "key":
                raise InvalidRecordError(f"Invalid header {what} size in record {index}")
    return position


def _malformed_record(index: int, size: int, offset: int, key: int, value: int) -> InvalidRecordError:
    """The error for a malformed record; sizes and offset are zigzag-encoded."""
    if offset != index << 1:
        return InvalidRecordError(f"Record {index} of the batch has another offset than {index}")
    for what, number in (("size", size), ("key size", key), ("value size", value)):
        if number & 1 and (number != 1 or what == "size"):
            return InvalidRecordError(f"Record {index} has a negative {what}")
    return InvalidRecordError(f"Invalid size of record {index}: it does not end where it should")
