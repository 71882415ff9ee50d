"""Pauses of handlers that do the same for many topics, partitions or groups, so that no step of theirs is long.

They count instead of measuring time, so that a simulation has the same pauses.
"""

import trio

from minikafka.protocol.elements import weight

EVERY = 256


class Pauses:
    """`await pauses()` for each item, or for several, or with a name of it that may be long; every so many times other
    tasks run.

    Args:
        every: Items between two pauses; together they should take about 5 ms.
    """

    __slots__ = ("_every", "_left")

    def __init__(self, every: int = EVERY) -> None:
        self._every = self._left = every

    async def __call__(self, name: str = "", items: int = 1) -> None:
        if self.is_due(name, items):
            await trio.lowlevel.checkpoint()

    def is_due(self, name: str = "", items: int = 1) -> bool:
        """Count items, for a caller that cannot wait here; every so many times the caller has to pause itself."""
        self._left -= items * weight(name)
        if self._left > 0:
            return False
        self._left = self._every
        return True
