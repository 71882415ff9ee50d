"""`SessionTask`: the background task of a group session, which ends before the member leaves."""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup

from minikafka.client.groups.group_session import GroupSession


class SessionTask:
    """Runs a session in a task group, from now on.

    A cancelled task goes on until its next wait: it may still send a request that joins. Only after its end does the
    session know whether there is a member that has to leave.
    """

    def __init__(self, tasks: TaskGroup, session: GroupSession) -> None:
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()
        tasks.start_soon(self._run, session)

    async def _run(self, session: GroupSession) -> None:
        try:
            with self._scope:
                await session.run()
        finally:
            self._ended.set()

    def cancel(self) -> None:
        """End the task at its next wait."""
        self._scope.cancel()

    async def ended(self) -> None:
        """Wait for the end of a task that was cancelled, which is near: cancellation does not reach this wait."""
        with anyio.CancelScope(shield=True):
            await self._ended.wait()
