"""Scans the records of a produced batch with numpy: what the broker's plain loop finds, for records without headers.

A function of it may run in a worker thread. It never decides that records are invalid: whatever is not as usual is left
to the loop.
"""

from __future__ import annotations

import numpy as np

from minikafka.protocol.records.batch_table import Sections, record_bounds
from minikafka.protocol.records.numpy_varints import read_blobs, read_varints
from minikafka.protocol.records.record import RECORD_SIZE_MIN, CorruptRecords

VARINT_SIZE_BYTES_MAX = 9
"""Longer varints do not fit into 63 bits."""


def scan_usual(payload: bytes | memoryview, count: int) -> tuple[int, int] | None:
    """The greatest timestamp delta and the number of null keys of `count` records that fill `payload`.

    None if they have headers, or offset deltas other than 0, 1, 2 …, or are malformed.
    """
    if not 0 < count <= len(payload) // RECORD_SIZE_MIN:
        return None
    numbers = (np.array([number], np.int64) for number in (0, len(payload), count))
    buffer = np.frombuffer(payload, np.uint8)
    try:
        starts, ends = record_bounds(Sections(payload, *numbers))
        lengths, position = read_varints(buffer, starts, VARINT_SIZE_BYTES_MAX)
        if lengths.min() < 0 or not np.array_equal(position + lengths, ends):
            return None
        timestamp_deltas, position = read_varints(buffer, position + 1, VARINT_SIZE_BYTES_MAX)
        offset_deltas, position = read_varints(buffer, position, VARINT_SIZE_BYTES_MAX)
        if not np.array_equal(offset_deltas, np.arange(count)):
            return None
        key_starts, key_ends, position = read_blobs(buffer, position, "key", VARINT_SIZE_BYTES_MAX)
        _, _, position = read_blobs(buffer, position, "value", VARINT_SIZE_BYTES_MAX)
    except CorruptRecords:
        return None
    if not np.array_equal(position + 1, ends) or buffer.take(position, mode="clip").any():
        return None
    return int(timestamp_deltas.max()), int(np.count_nonzero(key_starts > key_ends))
