"""Exceptions without the groups that the client's own task groups put around them: callers know nothing of these."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Never

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def task_group() -> AsyncIterator[TaskGroup]:
    """A task group whose exception is raised as it was, if it is the only one, or ends the program."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        raise_alone(sole(group.exceptions) or group)


def sole(errors: Iterable[BaseException]) -> BaseException | None:
    """The only exception in these, and in the groups among them; or the one that ends the program, as Ctrl-C."""
    leaves = list(_leaves(errors))
    ending = [one for one in leaves if isinstance(one, KeyboardInterrupt | SystemExit)]
    if ending:
        return ending[0]
    return leaves[0] if len(leaves) == 1 else None


def raise_alone(error: BaseException) -> Never:
    """Raise the error of a group that is being handled, with the cause and the context that it had in the group."""
    context, suppressed = error.__context__, error.__suppress_context__
    try:
        raise error
    finally:
        error.__context__, error.__suppress_context__ = context, suppressed


def without(group: BaseExceptionGroup[BaseException], error: BaseException | None) -> list[BaseException]:
    """What is in a group beside this error; trio makes other groups of those that leave a block."""
    known = set() if error is None else {id(one) for one in _leaves([error])}
    return [one for one in group.exceptions if not {id(leaf) for leaf in _leaves([one])} <= known]


def _leaves(errors: Iterable[BaseException]) -> Iterator[BaseException]:
    for error in errors:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error.exceptions)
        else:
            yield error
