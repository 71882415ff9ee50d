"""Generators that do long work in steps, between which other tasks run. Trio: checkpoints."""

from collections.abc import Generator
from typing import TypeVar

import trio

T = TypeVar("T")


async def in_steps(steps: Generator[None, None, T]) -> T:
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
