"""Pauses of handlers that do the same for many topics, partitions or groups, so that no step of theirs is long.

They count instead of measuring time, so that a simulation has the same pauses.
"""

from collections.abc import Generator
from typing import TypeVar

import trio

EVERY = 256

T = TypeVar("T")


class Pauses:
    """`await pauses()` once for each item; every so many times other tasks run.

    Args:
        every: Items between two pauses; together they should take about 5 ms.
    """

    __slots__ = ("_every", "_left")

    def __init__(self, every: int = EVERY) -> None:
        self._every = self._left = every

    async def __call__(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._left = self._every
            await trio.lowlevel.checkpoint()


async def with_pauses(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end; other tasks run at each `yield`. Returns its result."""
    try:
        while True:
            next(steps)
            await trio.lowlevel.checkpoint()
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        steps.close()


def at_once(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end without a pause. Returns its result."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: T = done.value
        return result
