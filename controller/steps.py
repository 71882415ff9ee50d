"""Runs generators that do long work in steps, between which other tasks run. Trio: checkpoints."""

from collections.abc import Callable, Generator
from functools import wraps
from typing import ParamSpec, TypeVar

import trio

from minikafka.storage.waits import in_task

P = ParamSpec("P")
T = TypeVar("T")


async def pause() -> None:
    """Let other tasks run."""
    await in_task()
    await trio.lowlevel.checkpoint()


async def in_steps(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end; other tasks run at each `yield`. Returns its result."""
    try:
        while True:
            next(steps)
            await pause()
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


def without_pauses(steps: Callable[P, Generator[None, None, T]]) -> Callable[P, T]:
    """Decorate a generator function: the result is a function that runs the generator `at_once`."""

    @wraps(steps)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return at_once(steps(*args, **kwargs))

    return run
