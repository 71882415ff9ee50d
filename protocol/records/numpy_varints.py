"""Reads varints at many positions of a buffer at once, with numpy.

The first bytes of all varints are read together, then the further bytes of longer ones. Positions need not be valid:
reads past the end are clipped to the last byte, and the caller must detect them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minikafka.protocol.records.record import CorruptRecords

Array = np.ndarray[Any, Any]
_SIGNED = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(256)], np.int64)
"""The values of one-byte varints."""


def read_varints(buffer: Array, position: Array, size_bytes_max: int = 5) -> tuple[Array, Array]:
    """The signed values (int64) of the varints at `position` (int64), and the positions after them.

    Varints of one or two bytes, which are the most frequent, are read without index arrays, which is faster.

    Raises CorruptRecords if one exceeds `size_bytes_max`: 5 for a varint, 10 for a varlong.
    """
    first = buffer.take(position, mode="clip")
    if not (first >= 0x80).any():
        return _SIGNED.take(first), position + 1
    numbers, after, is_short = read_short_varints(buffer, position)
    return (numbers, after) if is_short.all() else _read_long(buffer, position, size_bytes_max)


def read_short_varints(buffer: Array, position: Array) -> tuple[Array, Array, Array]:
    """As `read_varints`, with a third array: whether the varint has one or two bytes. What else is returned for a
    longer one has no meaning."""
    first, second = buffer.take(position, mode="clip"), buffer.take(position + 1, mode="clip")
    longer = first >= 0x80
    number = first.astype(np.int16)  # 14 bits; narrow numbers are faster
    number += ((second.astype(np.int16) << 7) - 128) * longer
    return ((number >> 1) ^ -(number & 1)).astype(np.int64), position + 1 + longer, (first & second) < 0x80


def _read_long(buffer: Array, position: Array, size_bytes_max: int) -> tuple[Array, Array]:
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
        raise CorruptRecords(f"varint exceeds {size_bytes_max} bytes")
    if size_bytes_max <= 5:
        number &= np.uint64(0xFFFFFFFF)
    return (number >> np.uint64(1)).astype(np.int64) ^ -(number & np.uint64(1)).astype(np.int64), position


def read_blobs(
    buffer: Array, position: Array, what: str, size_bytes_max: int = 5
) -> tuple[Array, Array, Array]:
    """(Starts, ends, positions after) of length-prefixed bytes; for null the end is before the start.

    Raises CorruptRecords for a length below -1.
    """
    sizes, starts = read_varints(buffer, position, size_bytes_max)
    if sizes.min(initial=0) < -1:
        raise CorruptRecords(f"{what} length {sizes.min()} is negative")
    ends = starts + sizes
    return starts, ends, np.maximum(starts, ends)
