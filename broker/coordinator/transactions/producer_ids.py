"""`ProducerIds`: hands out ids for idempotent producers, from blocks that the controller allocates.

The controller allocates each block only once, even if the node crashes before it has used all ids of a block. So no id
is ever used twice. Source: Kafka's `RPCProducerIdManager`.
"""

from collections.abc import Awaitable, Callable

from minikafka.controller.decisions.producer_id_blocks import ProducerIdBlock as Block


class ProducerIds:
    """Hands out producer ids on one node.

    Args:
        allocate: Asks the controller for the next block.
    """

    def __init__(self, allocate: Callable[[], Awaitable[Block]]) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0

    async def next(self) -> int:
        """An id that was never used before. Cancellation may waste a block.

        Raises:
            KafkaError: The controller could not allocate a block.
        """
        while self._next >= self._end:
            block = await self._allocate()
            if block.first >= self._end:  # two calls may wait for a block at once; the last block counts
                self._next, self._end = block.first, block.first + block.size
        self._next += 1
        return self._next - 1
