"""Runs work with blocking calls: a generator yields these calls, which run in worker threads or at once.

    def closing(…) -> Blocking[bool]:
        yield file.sync                       # a worker thread calls it; other tasks run meanwhile
        outcomes = yield partial(…)           # the result of the call; an OSError of it is raised here

The same generator can run in two ways. Tests and the start of a node run all calls at once (`in_line`). A node that
serves clients runs the calls in worker threads (`off_loop`).
"""

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

__all__ = ["Blocking", "in_line", "off_loop"]

Result = TypeVar("Result")
Blocking = Generator[Callable[[], Any], Any, Result]


class Runs(Protocol):
    """The part of a `Disk` that `off_loop` needs."""

    async def run(self, function: Callable[..., Result], *args: object) -> Result: ...


async def off_loop(disk: Runs, work: Blocking[Result]) -> Result:
    """Runs the calls of `work` in worker threads, one after the other; returns the result of `work`.

    After cancellation the remaining calls are not made.
    """
    try:
        call = next(work)
        while True:
            try:
                found = await disk.run(call)
            except OSError as error:
                call = work.throw(error)
            else:
                call = work.send(found)
    except StopIteration as done:
        result: Result = done.value
        return result
    finally:
        work.close()


def in_line(work: Blocking[Result]) -> Result:
    """Runs the calls of `work` at once, blocking; returns the result of `work`."""
    try:
        off_loop(_AtOnce(), work).send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    raise AssertionError("a call that runs at once waits for nothing")


class _AtOnce:
    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        return function(*args)
