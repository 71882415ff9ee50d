"""Who waits until this node has applied the metadata log up to an offset. Trio: it waits."""

from heapq import heappop, heappush

import trio

__all__ = ["Progress"]


class Progress:
    """An offset that grows.

    Attributes:
        offset: everything before is applied.
    """

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self._waiting: list[tuple[int, int, trio.Event]] = []
        self._count = 0
        self._grown = trio.Event()

    def advance(self, offset: int) -> None:
        """Everything before is applied now."""
        assert offset >= self.offset, "what is applied stays applied"
        self.offset = offset
        while self._waiting and self._waiting[0][0] <= offset:
            heappop(self._waiting)[2].set()
        self._grown.set()
        self._grown = trio.Event()

    async def grown(self) -> None:
        """Wait until more is applied."""
        await self._grown.wait()

    async def until(self, offset: int) -> None:
        """Wait until it is reached. Cancellation leaves an entry behind until then."""
        if self.offset < offset:
            event = trio.Event()
            self._count += 1
            heappush(self._waiting, (offset, self._count, event))
            await event.wait()
