"""Unwraps exceptions from the exception groups of the client's own task groups, which callers do not know about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Never

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def task_group() -> AsyncIterator[TaskGroup]:
    """A task group that raises its exception without a group, if it is the only one or ends the program."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        raise_alone(sole(group.exceptions) or group)


def sole(errors: Iterable[BaseException]) -> BaseException | None:
    """The only exception in `errors` and their nested groups, or the first that ends the program (Ctrl-C); or None."""
    leaves = list(_leaves(errors))
    ending = [one for one in leaves if isinstance(one, KeyboardInterrupt | SystemExit)]
    if ending:
        return ending[0]
    return leaves[0] if len(leaves) == 1 else None


def raise_alone(error: BaseException) -> Never:
    """Raise an error of the group that is being handled, and keep the cause and context that it had in the group."""
    context, suppressed = error.__context__, error.__suppress_context__
    try:
        raise error
    finally:
        error.__context__, error.__suppress_context__ = context, suppressed


def without(group: BaseExceptionGroup[BaseException], error: BaseException | None) -> list[BaseException]:
    """The exceptions of a group other than `error`. Leaves are compared, as trio regroups exceptions of a block."""
    known = set() if error is None else {id(one) for one in _leaves([error])}
    return [one for one in group.exceptions if not {id(leaf) for leaf in _leaves([one])} <= known]


def _leaves(errors: Iterable[BaseException]) -> Iterator[BaseException]:
    for error in errors:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error.exceptions)
        else:
            yield error
