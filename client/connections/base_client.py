"""`ClusterClient`, the base class of Producer, Consumer and Admin: an async context manager with a `Cluster`."""

from __future__ import annotations

from typing import Any, Self

import anyio
from anyio.abc import TaskGroup, TaskStatus

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.exception_groups import raise_alone, sole, without
from minikafka.client.connections.seams import Seams
from minikafka.client.connections.traffic import Measured
from minikafka.client.mixups import MixedWithBlocking
from minikafka.client.options import ClientOptions


class ClusterClient(MixedWithBlocking, Measured):
    """The base class of Producer, Consumer and Admin: an async context manager with a task group and a `Cluster`.

    An exception leaves the `async with` block as it was raised, never in an exception group.

    Args:
        lazily: entering the block does not wait for a broker.
    """

    def __init__(self, options: ClientOptions, seams: Seams | None, *, lazily: bool = False) -> None:
        self._seams = seams or Seams()
        self._client_options = options
        self._starts_lazily = lazily
        self._is_closed = False
        self._block: TaskGroup | None = None
        self._tasks: TaskGroup | None = None
        """The group of the background tasks. It runs in its own task, so that any task can leave the client's block."""
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        """The client's `Cluster`. Raises RuntimeError outside of the block, or in another loop, thread or process."""
        name = type(self).__name__
        if self._cluster is None:
            raise RuntimeError(f"this {name} is not open: use it inside `async with {name}(…) as …:`")
        if self._is_closed:
            raise RuntimeError(f"this {name} is closed: create a new one")
        self._cluster.home.check()
        return self._cluster

    async def __aenter__(self) -> Self:
        if self._block is not None:
            raise RuntimeError(f"this {type(self).__name__} was already entered: create a new one")
        self._block, self._tasks_ended = anyio.create_task_group(), anyio.Event()
        await self._block.__aenter__()
        try:
            self._tasks = await self._block.start(self._keep_tasks)
            await anyio.lowlevel.checkpoint_if_cancelled()  # Cancelled meanwhile, the tasks would have ended.
            self._cluster = Cluster(self._client_options, self._seams, self._tasks)
            await self._cluster.start(lazily=self._starts_lazily)
            await self._start(self._tasks)
        except BaseException as error:
            await self._leave(error)
            raise
        return self

    async def _keep_tasks(self, *, task_status: TaskStatus[TaskGroup]) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                task_status.started(tasks)
                await anyio.sleep_forever()
        finally:
            self._tasks_ended.set()

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool | None:
        if self._cluster is not None:
            self._cluster.home.check()
        try:
            if self._cluster is not None:
                await self._stop(error)
        except BaseException as failure:
            await self._leave(failure)
            raise
        return await self._leave(error)

    async def _start(self, tasks: TaskGroup) -> None:
        """Start background tasks."""

    async def _stop(self, left_by: BaseException | None) -> None:
        """Finish pending work, which depends on whether the block was left by an exception."""

    async def _leave(self, error: BaseException | None) -> bool | None:
        assert self._block is not None
        self._is_closed = True
        if self._cluster is not None:
            self._cluster.close()
            if not self._cluster.home.is_same_task():
                await self._leave_elsewhere(is_trio=self._cluster.home.is_trio)
                return None
        self._block.cancel_scope.cancel()
        try:
            if error is None:
                return await self._block.__aexit__(None, None, None)
            return await self._block.__aexit__(type(error), error, error.__traceback__)
        except BaseExceptionGroup as group:
            others = without(group, error)
            if not others:
                return False
            raise_alone(sole(others) or group)

    async def _leave_elsewhere(self, *, is_trio: bool) -> None:
        """End the background tasks, if another task leaves the block than the one that entered it.

        The block's own cancel scope belongs to the task that entered it, and would cancel that task.

        Raises RuntimeError under trio, which requires that the task that opened a nursery closes it.
        """
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._tasks_ended.wait()
        if is_trio:
            name = type(self).__name__
            raise RuntimeError(
                f"the block of this {name} was entered by another task than the one that leaves it, which trio does not"
                f" allow: keep `async with {name}(…) as …:` in one task; the {name} is closed"
            )
