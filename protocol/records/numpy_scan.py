"""Scans the records of a produced batch with numpy, in place of the broker's plain loop, if they have no headers.

The scan may run in a worker thread. It never decides that records are invalid: unusual records are left to the loop.
"""

from __future__ import annotations

import numpy as np

from minikafka.protocol.records.batch_table import Sections, locate_large, record_bounds
from minikafka.protocol.records.numpy_varints import Array, read_blobs, read_varints
from minikafka.protocol.records.record import RECORD_SIZE_MIN, CorruptRecords

VARINT_SIZE_BYTES_MAX, TIMESTAMP_SIZE_BYTES_MAX = 5, 9
"""The largest sizes of varints that are read here; longer timestamps do not fit into 63 bits."""
_ONE_BYTE, _TWO_BYTES = 64, 8192
"""The offset deltas below which varints have one byte, and two bytes."""
_DELTAS = np.arange(_TWO_BYTES)
_FIRST = np.where(_DELTAS < _ONE_BYTE, _DELTAS << 1, (_DELTAS << 1) & 0x7F | 0x80).astype(np.uint8)
_SECOND = (_DELTAS >> 6).astype(np.uint8)
_SIZES = np.where(_DELTAS < _ONE_BYTE, 1, 2).astype(np.int8)
"""The varints of the offset deltas 0, 1, 2 …: their first bytes, second bytes and sizes."""


def scan_usual(payload: bytes | memoryview, count: int) -> tuple[int, int] | None:
    """The greatest timestamp delta and the number of null keys of `count` records that fill `payload`.

    None if they have headers, or offset deltas other than 0, 1, 2 …, or are malformed.
    """
    if not 0 < count <= len(payload) // RECORD_SIZE_MIN:
        return None
    buffer = np.frombuffer(payload, np.uint8)
    try:
        found = locate_large(buffer, count) or _located(buffer, payload, count)
        if found is None:
            return None
        position, ends = found
        timestamp_deltas, position = read_varints(buffer, position + 1, TIMESTAMP_SIZE_BYTES_MAX)
        after = _after_offset_deltas(buffer, position)
        if after is None:
            return None
        key_starts, key_ends, position = read_blobs(buffer, after, "key", VARINT_SIZE_BYTES_MAX)
        _, _, position = read_blobs(buffer, position, "value", VARINT_SIZE_BYTES_MAX)
    except CorruptRecords:
        return None
    if not np.array_equal(position + 1, ends) or buffer.take(position, mode="clip").any():
        return None
    return int(timestamp_deltas.max()), int(np.count_nonzero(key_starts > key_ends))


def _located(buffer: Array, payload: bytes | memoryview, count: int) -> tuple[Array, Array] | None:
    """The position after the length of each record, and its end; None if a length does not lead to the end."""
    numbers = (np.array([number], np.int64) for number in (0, len(payload), count))
    starts, ends = record_bounds(Sections(payload, *numbers))
    lengths, position = read_varints(buffer, starts, VARINT_SIZE_BYTES_MAX)
    if lengths.min() < 0 or not np.array_equal(position + lengths, ends):
        return None
    return position, ends


def _after_offset_deltas(buffer: Array, position: Array) -> Array | None:
    """The positions after the offset deltas, if these are 0, 1, 2 …; else None."""
    count = len(position)
    if count > _TWO_BYTES:
        deltas, position = read_varints(buffer, position, VARINT_SIZE_BYTES_MAX)
        return position if np.array_equal(deltas, np.arange(count)) else None
    seconds = buffer.take(position[_ONE_BYTE:] + 1, mode="clip")
    as_expected = np.array_equal(buffer.take(position, mode="clip"), _FIRST[:count])
    if as_expected and np.array_equal(seconds, _SECOND[_ONE_BYTE:count]):
        return position + _SIZES[:count]
    return None
