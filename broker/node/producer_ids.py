"""Producer ids for idempotent producers: blocks come from the controller, single ids from the block in hand.

A block that a node has taken is gone, whether all its ids were used or not, so an id is never given out twice, not
even after a crash. Source: Kafka's `RPCProducerIdManager`.
"""

from collections.abc import Awaitable, Callable

from minikafka.controller.decisions.producer_id_blocks import ProducerIdBlock as Block


class ProducerIds:
    """Hands out ids.

    Args:
        allocate: Takes the next block from the controller.
    """

    def __init__(self, allocate: Callable[[], Awaitable[Block]]) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0

    async def next(self) -> int:
        """An id that nobody had before. Cancellation may waste a block, never repeat one."""
        while self._next >= self._end:
            block = await self._allocate()
            if block.first >= self._end:  # two may have waited for a block; the later one is used up last
                self._next, self._end = block.first, block.first + block.size
        self._next += 1
        return self._next - 1
