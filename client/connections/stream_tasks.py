"""`StreamTasks`: the background tasks of a client's sockets, which outlive the cancellation of the client's block."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup


class StreamTasks:
    """Runs the background tasks of streams until `close`, shielded from cancellation.

    A client whose block is cancelled still commits offsets and leaves its group, and needs its connections until then.
    """

    def __init__(self, task_group: TaskGroup) -> None:
        self._task_group = task_group
        self._scopes: dict[int, anyio.CancelScope] = {}
        self._started = self._ended = 0
        self._closed = False

    def start_soon(self, function: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """Run `function` in the background, as `TaskGroup.start_soon` does.

        Raises OSError if the client is closed and all tasks have ended: the task group takes no others then.
        """
        if self._closed and self._started == self._ended:
            raise OSError("the client is closed")
        self._started += 1
        self._task_group.start_soon(self._run, self._started, function, arguments)

    async def _run(self, number: int, function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> None:
        with anyio.CancelScope(shield=True) as scope:
            self._scopes[number] = scope
            if self._closed:
                scope.cancel()
            try:
                await function(*arguments)
            finally:
                del self._scopes[number]
                self._ended += 1

    def close(self) -> None:
        """Cancel all tasks, also those that are started later."""
        self._closed = True
        for scope in self._scopes.values():
            scope.cancel()
