"""`begin` runs a coroutine without a task, up to the first place where it has to wait; a task awaits the rest.

A switch to a task costs more than the answer to a small request. So handlers of requests are coroutine functions, and
`begin` runs their coroutines in the caller. Most coroutines end there. Otherwise the coroutine stops at one of the
waits of this module, `begin` returns a `Rest`, and a task awaits it::

    begun = begin(handle(request))
    response = await begun if isinstance(begun, Rest) else begun

A coroutine that `begin` runs has no task. Before it has awaited `in_task()`, it must not await trio or enter a cancel
scope. It reads the condition that it waits for after `in_task()`, since other tasks run in between. In a task,
`in_task()` does nothing, so the same coroutine can also simply be awaited. The functions of storage, controller and
broker that wait await `in_task()` themselves, so handlers rarely have to.
"""

import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, Self, TypeAlias, TypeVar

__all__ = ["IN_TASK", "Begun", "Offered", "Rest", "Several", "begin", "completed", "in_task", "offered", "watched"]

T = TypeVar("T")

IN_TASK = object()
"""The wait of `in_task()`: the coroutine needs a task to continue."""

_runs_without_task = False


class Rest(Generic[T]):
    """A coroutine that has begun and stopped at a wait: await it, or close it.

    Attributes:
        wait: What the coroutine waits for: `IN_TASK`, or an object that it has offered (`offered`).
    """

    __slots__ = ("_coroutine", "wait")

    def __init__(self, coroutine: Coroutine[Any, Any, T], wait: object) -> None:
        self._coroutine = coroutine
        self.wait = wait

    def __await__(self) -> Generator[Any, Any, T]:
        if _runs_without_task:
            yield IN_TASK
        return (yield from self._coroutine.__await__())

    def close(self) -> None:
        """Give the coroutine up; its `finally` clauses run."""
        self._coroutine.close()


Begun: TypeAlias = T | Rest[T]
"""The result of a coroutine that did not have to wait, or the rest of the coroutine."""


class _Wait:
    """Stops a coroutine that `begin` runs; in a task it does nothing."""

    __slots__ = ("_for",)

    def __init__(self, what: object) -> None:
        self._for = what

    def __await__(self) -> Generator[Any, Any, None]:
        if _runs_without_task:
            yield self._for


_IN_TASK = _Wait(IN_TASK)


def in_task() -> _Wait:
    """Stop a coroutine that `begin` runs, until a task awaits the rest of it. In a task this does nothing."""
    return _IN_TASK


def offered(wait: object) -> _Wait:
    """As `in_task`, but the caller of `begin` may handle `wait`, which is in `Rest.wait`, and close the rest."""
    return _Wait(wait)


def begin(coroutine: Coroutine[Any, Any, T]) -> Begun[T]:
    """Run a coroutine up to the first place where it has to wait; returns its result, or the rest of it.

    Raises:
        RuntimeError: The coroutine waits for something else before `in_task()`; the error is raised in the coroutine.
        The coroutine's exceptions.
    """
    global _runs_without_task
    before, _runs_without_task = _runs_without_task, True
    try:
        wait = coroutine.send(None)
        if wait is not IN_TASK and not isinstance(wait, Offered):
            if (abort := getattr(wait, "abort_func", None)) is not None:
                abort(None)  # Nobody may wake this wait for a task that it does not have.
            coroutine.throw(RuntimeError(f"a coroutine waits for {wait!r} without a task: await in_task() first"))
            raise RuntimeError(f"{coroutine} goes on after it has waited without a task")
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        _runs_without_task = before
    return Rest(coroutine, wait)


async def watched(steps: Coroutine[Any, Any, T], waits: Callable[[], None], resumes: Callable[[], None]) -> T:
    """Run a coroutine to its end. `waits` is called whenever it stops at a wait, and `resumes` before it continues."""
    return await _watched(steps, waits, resumes)


@types.coroutine
def _watched(
    steps: Coroutine[Any, Any, T], waits: Callable[[], None], resumes: Callable[[], None]
) -> Generator[Any, Any, T]:
    try:
        wait = steps.send(None)
        while True:
            waits()
            try:
                value = yield wait
            except BaseException as error:  # noqa: BLE001 (it is raised in `steps`)
                resumes()
                wait = steps.throw(error)
            else:
                resumes()
                wait = steps.send(value)
    except StopIteration as done:
        result: T = done.value
        return result


class Several(Generic[T]):
    """A block that begins several coroutines without a task, and then awaits their results in a task.

    The end of the block closes the coroutines that have not ended.
    """

    def __init__(self) -> None:
        self._begun: list[Begun[T]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._begun:
            if isinstance(one, Rest):
                one.close()

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> None:
        """Run a coroutine up to the first place where it has to wait. Raises its exceptions."""
        self._begun.append(begin(coroutine))

    async def results(self) -> list[T]:
        """The results, in the order of the calls of `begin`. Raises the first exception of a coroutine."""
        return [await one if isinstance(one, Rest) else one for one in self._begun]


class Offered:
    """The base class of objects that coroutines may pass to `offered`."""

    __slots__ = ()


async def completed(begun: Begun[T]) -> T:
    """Return the result of a coroutine that `begin` has run; await the rest of it, if there is one."""
    if isinstance(begun, Rest):
        rest: Rest[T] = begun
        return await rest
    return begun
