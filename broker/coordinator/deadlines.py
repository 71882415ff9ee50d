"""`Deadlines`: named deadlines in a dictionary and a heap, in place of Kafka's timer wheel.

Heartbeats move a member's deadline thousands of times for each time it passes. Moving a deadline to a later time is one
write to the dictionary; the heap is corrected when the old entry reaches the top.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
_GARBAGE_MIN = 64


class Deadlines(Generic[K]):
    """Deadlines by name, in milliseconds of a steady clock.

    Invariant: for every name the heap has an entry that is not later than the deadline.
    """

    def __init__(self) -> None:
        self._at: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._at)

    def set(self, name: K, at_ms: int) -> None:
        """Set the deadline of `name`, replacing an earlier one."""
        known = self._at.get(name)
        self._at[name] = at_ms
        if known is None or at_ms < known:
            self._push(at_ms, name)

    def cancel(self, name: K) -> None:
        """Remove the deadline of `name`, if any."""
        self._at.pop(name, None)

    def get(self, name: K) -> int | None:
        """The deadline of `name`; None if it has none."""
        return self._at.get(name)

    def next_ms(self) -> int | None:
        """The earliest deadline; None without deadlines."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop(self, now_ms: int) -> K | None:
        """Remove and return the name of the earliest deadline; None if it is later than `now_ms`."""
        at_ms = self.next_ms()
        if at_ms is None or at_ms > now_ms:
            return None
        name = heappop(self._heap)[2]
        del self._at[name]
        return name

    def _settle(self) -> None:
        """Drop cancelled entries from the top of the heap, and re-insert moved ones."""
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
