"""Pauses in handlers that process many topics, partitions or groups, so that other tasks run in between.

Pauses depend on a count of items and not on measured time, so that a simulation has the same pauses.
"""


from minikafka.controller.steps import pause
from minikafka.protocol.elements import weight

EVERY = 256


class Pauses:
    """Lets other tasks run after every `every` items: `await pauses()` is called for each item.

    A call may count several items, or take the name of the item: a long name counts as several items.

    Args:
        every: Items between two pauses; together they should take about 5 ms.
    """

    __slots__ = ("_every", "_left")

    def __init__(self, every: int = EVERY) -> None:
        self._every = self._left = every

    async def __call__(self, name: str = "", items: int = 1) -> None:
        if self.is_due(name, items):
            await pause()

    def is_due(self, name: str = "", items: int = 1) -> bool:
        """Count items, and return whether a pause is due; for callers that cannot wait here, and pause themselves."""
        self._left -= items * weight(name)
        if self._left > 0:
            return False
        self._left = self._every
        return True
