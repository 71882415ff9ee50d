"""Decodes and encodes large messages in a worker thread, one at a time, so that no step of a task is long.

A message costs time and memory by the elements of its arrays, about 1 µs and 200 bytes for each, not by its bytes. Up
to `ELEMENTS_AT_ONCE` it is decoded and encoded at once, above in a thread; above the bound of its API it is refused.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

ELEMENTS_AT_ONCE = 4_000
ELEMENTS_MAX = 10_000
"""The bound of most APIs. Apache Kafka has none on the wire; of changes by one request it has the same."""
ELEMENTS_MAX_WITH_PAUSES = 100_000
"""The bound of APIs whose handlers pause: their `ELEMENTS_MAX`."""

Run = Callable[..., Awaitable[Any]]


class LargeMessages:
    """The large messages of a node.

    Args:
        run: Calls a function in a worker thread, as `Disk.run`.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._free = trio.Semaphore(1)

    async def run(self, function: Callable[..., Any], *args: object) -> Any:
        """The function's result. Cancellation waits for the function to return.

        Raises: What the function raises.
        """
        async with self._free:
            return await self._run(function, *args)


async def _at_once(function: Callable[..., Any], *args: object) -> Any:
    return function(*args)


LARGE_MESSAGES = LargeMessages(_at_once)
"""Without threads."""
