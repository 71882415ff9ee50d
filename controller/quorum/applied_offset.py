"""`AppliedOffset`: how far this node has applied the metadata log, for tasks that wait for an offset. Trio: events."""

from heapq import heappop, heappush

import trio

__all__ = ["AppliedOffset"]


class AppliedOffset:
    """The applied offset, which only grows.

    Attributes:
        offset: every record before it is applied.
    """

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self._waiting: list[tuple[int, int, trio.Event]] = []
        self._count = 0
        self._advanced = trio.Event()

    def advance(self, offset: int) -> None:
        """Set the offset, once everything before it is applied, and wake the tasks that wait for it."""
        assert offset >= self.offset, "the applied offset never decreases"
        self.offset = offset
        while self._waiting and self._waiting[0][0] <= offset:
            heappop(self._waiting)[2].set()
        self.wake()

    def wake(self) -> None:
        """Let `wait_advanced` return although the offset has not changed: there may be something else to report."""
        self._advanced.set()
        self._advanced = trio.Event()

    async def wait_advanced(self) -> None:
        """Wait until the offset advances, or `wake` is called."""
        await self._advanced.wait()

    async def wait_for(self, offset: int) -> None:
        """Wait until everything before `offset` is applied. After cancellation an entry stays in memory until then."""
        if self.offset < offset:
            event = trio.Event()
            self._count += 1
            heappush(self._waiting, (offset, self._count, event))
            await event.wait()
