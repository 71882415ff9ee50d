"""`FlushTurns`: limits the number of flushes at a time, since flushes hold files open and wait for the disk.

Trio tasks wait for their turns.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

__all__ = ["FlushTurns"]

_FLUSHES_MAX = 32
"""The largest number of flushes at a time; a disk syncs fewer files at the same time."""
_SEGMENTS_MAX = 32
_FILES = 4
"""The number of files of a segment: batches, two indexes, aborted transactions."""


class FlushTurns:
    """Limits the flushes of all logs on a disk.

    Args:
        files_max: the number of files that all flushes together may hold open.

    Attributes:
        at_once: the number of flushes at a time.
        segments_max: the number of segments that one flush holds open, besides a segment that was rolled or truncated
            during the previous flush.
    """

    def __init__(self, files_max: int) -> None:
        self.segments_max = max(1, min(_SEGMENTS_MAX, files_max // (_FILES * _FLUSHES_MAX)))
        self.at_once = max(1, min(_FLUSHES_MAX, files_max // _FILES))
        self._turns = trio.Semaphore(self.at_once)
        self._flushing: dict[object, trio.Event] = {}

    @asynccontextmanager
    async def turn(self, log: object) -> AsyncIterator[None]:
        """Waits while there are too many flushes, or another flush of the same log. Within the context a log may flush.

        Two flushes of one log must not overlap. The first has taken over the files that it flushes. If the second ended
        earlier, it would advance the recovery point beyond data that is not on the device. Without other flushes,
        entering the context is not a trio checkpoint.
        """
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
