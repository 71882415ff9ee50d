"""Many varints at once, with numpy: one at each of many positions of a buffer.

The first bytes of all are read together, then further bytes of those that go on. A position may lie anywhere: reads
beyond the end are clipped to the last byte, and it is for the caller to find out that what was read there does not fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minikafka.protocol.records.record import CorruptRecords

Array = np.ndarray[Any, Any]
_SIGNED = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(256)], np.int64)
"""The values of varints of one byte."""


def read_varints(buffer: Array, position: Array, size_bytes_max: int = 5) -> tuple[Array, Array]:
    """The signed values (int64) of the varints at `position` (int64), and the positions behind them.

    Nearly all take one byte or two, which whole arrays do quicker than the general way through indexes.

    Raises CorruptRecords where one goes on for more than `size_bytes_max`: 5 for a varint, 10 for a varlong.
    """
    first = buffer.take(position, mode="clip")
    longer = first >= 0x80
    if not longer.any():
        return _SIGNED.take(first), position + 1
    second = buffer.take(position + 1, mode="clip")
    if (longer & (second >= 0x80)).any():
        return _read_long(buffer, position, size_bytes_max)
    number = first.astype(np.int64)
    number += (second.astype(np.int64) << 7) * longer - 128 * longer
    return (number >> 1) ^ -(number & 1), position + 1 + longer


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
        raise CorruptRecords(f"a varint is longer than {size_bytes_max} bytes")
    if size_bytes_max <= 5:
        number &= np.uint64(0xFFFFFFFF)
    return (number >> np.uint64(1)).astype(np.int64) ^ -(number & np.uint64(1)).astype(np.int64), position


def read_blobs(buffer: Array, position: Array, what: str) -> tuple[Array, Array, Array]:
    """(Starts, ends, positions behind) of what has its length in front; of null the end lies before the start.

    Raises CorruptRecords for a length below -1.
    """
    sizes, starts = read_varints(buffer, position)
    if sizes.min(initial=0) < -1:
        raise CorruptRecords(f"a {what} of {sizes.min()} bytes")
    ends = starts + sizes
    return starts, ends, np.maximum(starts, ends)
