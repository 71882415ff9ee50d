"""Runs long work in steps: generators that yield where other tasks may run, or where a blocking call is due.

    def closing(…) -> Steps[bool]:
        yield                                 # other tasks run meanwhile
        outcomes = yield partial(…)           # the result of a blocking call; an OSError of it is raised here

The same generator can run in two ways. `at_once` runs it without pauses, and makes the blocking calls itself; tests
and the start of a node use it. `in_steps` lets other tasks run at each `yield`, and makes the blocking calls in worker
threads; a node that serves clients uses it. When a pause is due depends on a count of items (`Pauses`), not on measured
time, so that a simulation has the same pauses. Trio: checkpoints.
"""

from collections.abc import Callable, Generator
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

import trio

from minikafka.protocol.elements import weight
from minikafka.storage.waits import in_task

__all__ = ["EVERY", "Pauses", "Steps", "at_once", "in_steps", "pause", "without_pauses"]

P = ParamSpec("P")
T = TypeVar("T")
Steps: TypeAlias = Generator[Callable[[], Any] | None, Any, T]
"""Yields None where other tasks may run, or a blocking call, whose result is sent in; returns the work's result."""

EVERY = 256
"""The number of items between two pauses, unless they take more or less than 5 ms together."""


class Pauses:
    """Counts the items of work that is done in steps, and decides when a pause is due.

    A coroutine function calls `await pauses()` for each item, which pauses when it is due. A generator uses
    `if pauses.is_due(): yield`. A call may count several items. It may also take the name of an item, since a long name
    counts as several items.

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
        """Count items, and return whether a pause is due before them."""
        self._left -= items * weight(name)
        if self._left > 0:
            return False
        self._left = self._every
        return True


class Runs(Protocol):
    """The part of a `Disk` that `in_steps` needs."""

    async def run(self, function: Callable[..., T], *args: object) -> T: ...


async def pause() -> None:
    """Let the other tasks that are ready run, once. Needs a task: awaits `in_task()` first."""
    await in_task()
    await trio.lowlevel.checkpoint()


async def in_steps(steps: Steps[T], disk: Runs | None = None) -> T:
    """Run a generator to its end, and return its result. Other tasks run at each `yield`.

    After cancellation the remaining steps are not taken.

    Args:
        disk: Makes the blocking calls in worker threads; None if there are none.
    """
    try:
        call = next(steps)
        while True:
            if call is None:
                await pause()
                call = next(steps)
                continue
            assert disk is not None, "blocking calls need a disk"
            try:
                found = await disk.run(call)
            except OSError as error:
                call = steps.throw(error)
            else:
                call = steps.send(found)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        steps.close()


def at_once(steps: Steps[T]) -> T:
    """Run a generator to its end without a pause, with its blocking calls. Returns its result."""
    try:
        call = next(steps)
        while True:
            call = next(steps) if call is None else _made(call, steps)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        steps.close()


def _made(call: Callable[[], Any], steps: Steps[Any]) -> Callable[[], Any] | None:
    """Make a blocking call; returns what is yielded next."""
    try:
        found = call()
    except OSError as error:
        return steps.throw(error)
    return steps.send(found)


def without_pauses(steps: Callable[P, Steps[T]]) -> Callable[P, T]:
    """Decorate a generator function: the result is a function that runs the generator `at_once`."""

    @wraps(steps)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return at_once(steps(*args, **kwargs))

    return run
