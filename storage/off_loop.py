"""Work of which some calls block: a generator yields these calls, and its caller decides where they run.

    def closing(…) -> Blocking[bool]:
        yield file.sync                       # a worker thread calls it; other tasks run meanwhile
        outcomes = yield partial(…)           # the result of the call; an OSError of it is raised here

The same generator serves tests and a start, which call everything at once (`in_line`), and a node that serves
(`off_loop`).
"""

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

__all__ = ["Blocking", "in_line", "off_loop"]

Result = TypeVar("Result")
Blocking = Generator[Callable[[], Any], Any, Result]


class Runs(Protocol):
    """The part of a `Disk` that is used here."""

    async def run(self, function: Callable[..., Result], *args: object) -> Result: ...


async def off_loop(disk: Runs, work: Blocking[Result]) -> Result:
    """Runs the calls in worker threads, one after the other; returns the result of `work`.

    If it is cancelled between two calls, what follows is left out.
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
    """Runs the calls at once, blocking; returns the result of `work`."""
    try:
        off_loop(_AtOnce(), work).send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    raise AssertionError("a call that runs at once waits for nothing")


class _AtOnce:
    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        return function(*args)
