"""Deadlines by name: what a timer wheel does for Kafka, as a dictionary and a heap.

A heartbeat moves its member's deadline thousands of times for each time one passes, so moving one back is a write to a
dictionary; the heap learns of it when the old entry comes up.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
_GARBAGE_MIN = 64


class Deadlines(Generic[K]):
    """When what is due, in milliseconds of a steady clock.

    Invariant: for every name the heap has an entry that is not later than its deadline.
    """

    def __init__(self) -> None:
        self._at: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._at)

    def set(self, name: K, at_ms: int) -> None:
        """From now on `name` is due at `at_ms`, and at no other time."""
        known = self._at.get(name)
        self._at[name] = at_ms
        if known is None or at_ms < known:
            self._push(at_ms, name)

    def cancel(self, name: K) -> None:
        """`name` is no longer due; nothing happens if it was not."""
        self._at.pop(name, None)

    def get(self, name: K) -> int | None:
        """When `name` is due."""
        return self._at.get(name)

    def next_ms(self) -> int | None:
        """The earliest deadline; None if there is none."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> list[K]:
        """Take out everything due at `now_ms` or before, earliest first."""
        names: list[K] = []
        while (at_ms := self.next_ms()) is not None and at_ms <= now_ms:
            name = heappop(self._heap)[2]
            del self._at[name]
            names.append(name)
        return names

    def _settle(self) -> None:
        """Drop or put back what stands at the top of the heap but was cancelled or moved."""
        while self._heap:
            at_ms, _, name = self._heap[0]
            real = self._at.get(name)
            if real == at_ms:
                return
            heappop(self._heap)
            if real is not None and real > at_ms:
                self._push(real, name)

    def _push(self, at_ms: int, name: K) -> None:
        self._count += 1
        if len(self._heap) > _GARBAGE_MIN + 4 * len(self._at):
            self._heap = [(at, place, key) for place, (key, at) in enumerate(self._at.items())]
            self._count = len(self._heap)
            heapify(self._heap)
            return
        heappush(self._heap, (at_ms, self._count, name))
