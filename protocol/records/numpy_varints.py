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


def _short_varints() -> tuple[Array, Array]:
    """Tables of the values and the sizes of varints of one or two bytes.

    The index is the number that the first two bytes form, the first byte low. The size is 0 for a longer varint.
    """
    words = np.arange(1 << 16)
    first, second = words & 0xFF, words >> 8
    longer = first >= 0x80
    numbers = (first & 0x7F) | np.where(longer, (second & 0x7F) << 7, 0)
    sizes = np.where(longer, np.where(second >= 0x80, 0, 2), 1)
    return ((numbers >> 1) ^ -(numbers & 1)).astype(np.int16), sizes.astype(np.int8)


_SHORT, _SHORT_SIZES = _short_varints()


def read_varints(buffer: Array, position: Array, size_bytes_max: int = 5) -> tuple[Array, Array]:
    """The signed values (int64) of the varints at `position` (int64), and the positions after them.

    Varints of one or two bytes, which are the most frequent, are looked up in a table, which is faster.

    Raises CorruptRecords if one exceeds `size_bytes_max`: 5 for a varint, 10 for a varlong.
    """
    first = buffer.take(position, mode="clip")
    if first.max(initial=0) < 0x80:
        return _SIGNED.take(first), position + 1
    words = _words(buffer, first, position)
    sizes = _SHORT_SIZES.take(words)
    if sizes.all():
        return _SHORT.take(words).astype(np.int64), position + sizes
    return _read_long(buffer, position, size_bytes_max)


def read_short_varints(buffer: Array, position: Array) -> tuple[Array, Array, Array]:
    """Read varints like `read_varints`, and return a third array: the size of each varint in bytes, 0 if it has more
    than two bytes. The value and the position of such a longer varint have no meaning."""
    words = _words(buffer, buffer.take(position, mode="clip"), position)
    sizes = _SHORT_SIZES.take(words)
    return _SHORT.take(words).astype(np.int64), position + sizes, sizes


def _words(buffer: Array, first: Array, position: Array) -> Array:
    """The first two bytes of each varint as a number, the first one low."""
    words = buffer.take(position + 1, mode="clip").astype(np.intp)
    words <<= 8
    words |= first
    return words


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
    """Locate length-prefixed bytes. Returns their starts, their ends, and the positions after them; for null the end is
    before the start.

    Raises CorruptRecords for a length below -1.
    """
    sizes, starts = read_varints(buffer, position, size_bytes_max)
    least = sizes.min(initial=0)
    if least < -1:
        raise CorruptRecords(f"{what} length {least} is negative")
    ends = starts + sizes
    return starts, ends, ends if least == 0 else np.maximum(starts, ends)
