"""`OneReader`: checks that only one task at a time reads from a consumer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import ref

import anyio
from anyio.lowlevel import checkpoint

from minikafka.client.going_on import AsyncIteration, Block

T = TypeVar("T")
READ_TWICE = (
    "reads from this Consumer: a second one would get records twice, and commit what the first one has not processed;"
    " give each a Consumer of its own, with the same group_id to share partitions"
)


class OneReader:
    """The task that reads from a consumer, and its iterator while that is in use.

    Attributes:
        by_task: whether readers are distinguished by task; otherwise the owner of this object checks who reads.
    """

    def __init__(self) -> None:
        self.by_task = True
        self._task: ref[Any] | None = None
        """The coroutine of the task that iterates: a task that has ended has none, or one without a frame."""
        self._iterator: ref[AsyncIteration[Any]] | None = None
        self._waits = 0

    def iterates(self, begin: Callable[[Block], AsyncGenerator[T, None]]) -> AsyncIteration[T]:
        """Create an iterator over the generator of `begin`, for the current task. Raises RuntimeError if another task
        iterates."""
        if not self.by_task:
            return AsyncIteration(begin)
        self.check()
        self._task = ref(anyio.get_current_task().coro)
        iterator = AsyncIteration(begin)
        self._iterator = ref(iterator)
        return iterator

    def check(self) -> None:
        """Raise RuntimeError if another task is iterating. A task that has left its loop, or has ended, does not count.

        The exception with which a task ended may keep its iterator.
        """
        iterator = None if self._iterator is None else self._iterator()
        if iterator is None or not iterator.is_open or self._task is None:
            return
        task = self._task()
        has_ended = task is None or getattr(task, "cr_frame", task) is None
        if not has_ended and task is not anyio.get_current_task().coro:
            raise RuntimeError(f"another task {READ_TWICE}")

    def check_waiting(self) -> None:
        """Raise RuntimeError if another task is inside `waiting`."""
        if self._waits:
            raise RuntimeError(f"another task {READ_TWICE}")

    async def let_others_run(self) -> None:
        """Let other tasks run within `waiting`, so that a read that begins at the same time is refused."""
        with self.waiting():
            await checkpoint()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A block that waits for records, while other tasks run. Blocks may overlap after a wait for a callback."""
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
