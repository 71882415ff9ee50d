"""`NumpyOffsetMap`: an `OffsetMap` of three numpy arrays, in which many keys are looked up at once.

It is a hash table with open addressing and double hashing. Each key has its own sequence of slots, whose step is a part
of the key's digest, and the key is stored in the first free slot of its sequence. The number of slots is prime, so that
each sequence visits all slots. The table begins small and grows fourfold.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from minikafka.storage.compaction.offset_map import NO_OFFSET, OffsetMap

Array = np.ndarray[Any, Any]
ENTRY_SIZE_BYTES = 32
"""The memory of a key in bytes: its slot (24), and its offset in the sorted list (8)."""
_SLOTS_MIN = 1 << 12
_GROWTH = 4
_GROWING_LOAD = 0.5
_LOAD_MAX = 0.95


class NumpyOffsetMap(OffsetMap):
    """An offset map of numpy arrays. For the arguments see `PlainOffsetMap`."""

    def __init__(self, size_bytes: int, load_factor: float) -> None:
        super().__init__()
        self._slots_max = _prime_up_to(max(3, size_bytes // ENTRY_SIZE_BYTES))
        self._capacity = max(1, int(self._slots_max * min(load_factor, _LOAD_MAX)))
        self._count = 0
        self._create(_SLOTS_MIN)

    def __len__(self) -> int:
        return self._count

    def put(self, digests: bytes, offsets: Sequence[int]) -> int:
        """Adds records, as `OffsetMap.put`."""
        high, low = _halves(digests)
        numbers = np.asarray(offsets, np.int64)
        if self._count + len(numbers) > self._capacity:
            fitting = self._fitting(high, low)
            high, low, numbers = high[:fitting], low[:fitting], numbers[:fitting]
        while self._count + len(numbers) > self._slots * _GROWING_LOAD and self._slots < self._slots_max:
            self._grow()
        self._insert(high, low, numbers)
        return len(numbers)

    def latest(self, digests: bytes) -> list[int]:
        """Returns the last offset of each key, as `OffsetMap.latest`."""
        found: list[int] = self._latest(*_halves(digests)).tolist()
        return found

    def _sorted_offsets(self) -> array[int]:
        found = array("q")
        found.frombytes(np.sort(self._offsets[self._offsets != NO_OFFSET]).tobytes())
        return found

    def _create(self, slots: int) -> None:
        self._slots = min(_prime_up_to(slots), self._slots_max)
        self._high, self._low = np.empty(self._slots, np.uint64), np.empty(self._slots, np.uint64)
        self._offsets = np.full(self._slots, NO_OFFSET, np.int64)

    def _grow(self) -> None:
        used = np.flatnonzero(self._offsets != NO_OFFSET)
        entries = self._high[used], self._low[used], self._offsets[used]
        self._count = 0
        self._create(self._slots * _GROWTH)
        self._insert(*entries)

    def _fitting(self, high: Array, low: Array) -> int:
        """The number of records before the first record whose key has no room in the table."""
        unknown = np.flatnonzero(self._latest(high, low) == NO_OFFSET)
        keys = np.stack([high[unknown], low[unknown]], axis=1)
        first = np.sort(np.unique(keys, axis=0, return_index=True)[1])
        room = self._capacity - self._count
        return int(unknown[first[room]]) if room < len(first) else len(high)

    def _places(self, high: Array, low: Array) -> tuple[Array, Array]:
        """The first slot and the step of each key's sequence of slots."""
        slots = np.uint64(self._slots)
        return (low % slots).astype(np.int64), (high % (slots - np.uint64(1))).astype(np.int64) + 1

    def _latest(self, high: Array, low: Array) -> Array:
        found = np.full(len(high), NO_OFFSET, np.int64)
        slot, step = self._places(high, low)
        left = np.arange(len(high))
        while len(left):
            offsets = self._offsets[slot]
            alike = (self._high[slot] == high) & (self._low[slot] == low) & (offsets != NO_OFFSET)
            found[left[alike]] = offsets[alike]
            left, high, low, slot, step = self._next(~alike & (offsets != NO_OFFSET), left, high, low, slot, step)
        return found

    def _insert(self, high: Array, low: Array, offsets: Array) -> None:
        """Sets the offsets of keys, for which the table has room. If a key occurs twice, its last offset remains."""
        slot, step = self._places(high, low)
        while len(offsets):
            empty = np.flatnonzero(self._offsets[slot] == NO_OFFSET)
            if len(empty):
                claimed = slot[empty]
                self._offsets[claimed] = empty  # Of several keys, one is in the slot afterwards.
                winners = empty[self._offsets[claimed] == empty]
                self._high[slot[winners]], self._low[slot[winners]] = high[winners], low[winners]
                self._count += len(winners)
            alike = (self._high[slot] == high) & (self._low[slot] == low)
            self._offsets[slot[alike]] = offsets[alike]
            offsets, high, low, slot, step = self._next(~alike, offsets, high, low, slot, step)

    def _next(self, kept: Array, first: Array, high: Array, low: Array, slot: Array, step: Array) -> list[Array]:
        """The columns of the keys that have not found their slot yet, with the next slot of each key's sequence."""
        rows = np.flatnonzero(kept)
        first, high, low, slot, step = (column[rows] for column in (first, high, low, slot, step))
        slot = slot + step
        slot[slot >= self._slots] -= self._slots
        return [first, high, low, slot, step]


def _halves(digests: bytes) -> tuple[Array, Array]:
    if not digests:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    pairs = np.frombuffer(digests, np.uint64).reshape(-1, 2)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def _prime_up_to(number: int) -> int:
    """The greatest prime up to `number`, which must be at least 2."""
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return number
