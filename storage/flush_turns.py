"""Who may flush: flushes hold files open, and wait for the disk, so that few go on at a time. Trio: tasks wait."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

__all__ = ["FlushTurns"]

_FLUSHES_MAX = 32
"""More than a disk syncs at the same time."""
_SEGMENTS_MAX = 32
_FILES = 4
"""Of a segment: batches, two indexes, aborted transactions."""


class FlushTurns:
    """The flushes of all logs on a disk.

    Args:
        files_max: how many files they may hold open together.

    Attributes:
        at_once: how many flushes.
        segments_max: how many segments one flush holds open, besides one that was rolled or truncated during the
            flush before.
    """

    def __init__(self, files_max: int) -> None:
        self.segments_max = max(1, min(_SEGMENTS_MAX, files_max // (_FILES * _FLUSHES_MAX)))
        self.at_once = max(1, min(_FLUSHES_MAX, files_max // _FILES))
        self._turns = trio.Semaphore(self.at_once)
        self._flushing: dict[object, trio.Event] = {}

    @asynccontextmanager
    async def turn(self, log: object) -> AsyncIterator[None]:
        """Waits while there are too many flushes, or another one of this log: it has taken what it flushes, and one
        that ended before it would advance the recovery point beyond what is not on the device. Without others it is
        no checkpoint."""
        while (other := self._flushing.get(log)) is not None:
            await other.wait()
        self._flushing[log] = trio.Event()
        try:
            await self._begin()
            try:
                yield
            finally:
                self._turns.release()
        finally:
            self._flushing.pop(log).set()

    async def _begin(self) -> None:
        try:
            self._turns.acquire_nowait()
        except trio.WouldBlock:
            await self._turns.acquire()
