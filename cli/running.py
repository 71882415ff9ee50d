"""Runs the async part of a command, and handles Ctrl-C and SIGTERM.

The first signal interrupts blocks marked as interruptible (reading input, waiting for records), so that the command
can deliver, commit and print a summary. The second signal cancels everything, and so do TERM_GRACE_S after a SIGTERM:
whoever sends it waits for the end, and sends no other. The exit code is 128 + signal.

The event loop is trio's, because its worker threads do not delay the exit of the process: one of them may be blocked
in a read of a terminal or in a write to a pager.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import anyio
    from anyio.abc import TaskStatus

    from minikafka.client import Admin


TERM_GRACE_S = 5


class Stop:
    """The stop request of the user.

    Attributes:
        signal: the number of the first signal received; 0 for none.
    """

    def __init__(self) -> None:
        self.signal = 0
        self._everything: anyio.CancelScope | None = None
        self._waits: list[anyio.CancelScope] = []

    @contextmanager
    def interruptible(self) -> Iterator[anyio.CancelScope]:
        """A block that the first signal cancels, immediately if it was received before."""
        import anyio

        with anyio.CancelScope() as scope:
            if self.signal:
                scope.cancel()
            self._waits.append(scope)
            try:
                yield scope
            finally:
                self._waits.remove(scope)

    def on_signal(self, number: int) -> None:
        """Cancel interruptible blocks at the first signal, everything at the second or TERM_GRACE_S after SIGTERM."""
        import anyio

        if number == signal.SIGTERM and self._everything is not None:
            self._everything.deadline = min(self._everything.deadline, anyio.current_time() + TERM_GRACE_S)
        scopes = [self._everything] if self.signal else list(self._waits)
        self.signal = self.signal or number
        for scope in scopes:
            if scope is not None:
                scope.cancel()

    async def run(self, work: Callable[[Stop], Awaitable[None]]) -> int:
        """Run `work` and handle signals. Returns the first signal, or 0. Raises the exception of `work`."""
        import anyio

        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            self._everything = tasks.cancel_scope
            await tasks.start(self._listen)
            try:
                await work(self)
            except Exception as error:  # noqa: BLE001 (raised below: the task group would wrap it)
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return self.signal

    async def _listen(self, *, task_status: TaskStatus[None]) -> None:
        import anyio

        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for number in signals:
                self.on_signal(number)


def run(work: Callable[[Stop], Awaitable[None]]) -> None:
    """Run `work` to its end.

    Raises its exceptions, click.UsageError for options that a client rejects, and click's Exit after a signal.
    """
    import anyio

    from minikafka.client.options import InvalidOption

    try:
        number = anyio.run(Stop().run, work, backend="trio")
    except InvalidOption as error:
        raise click.UsageError(str(error)) from error
    if number:
        raise click.exceptions.Exit(128 + number)


def with_admin(bootstrap_server: str, work: Callable[[Admin], Awaitable[None]], **arguments: Any) -> None:
    """Run `work` with a connected Admin, which takes these arguments. Raises as `run`."""
    from minikafka.cli.options import client_arguments
    from minikafka.client import Admin
    from minikafka.client.options import AdminOptions

    async def connected(stop: Stop) -> None:
        with stop.interruptible():
            async with Admin(**client_arguments(AdminOptions, bootstrap_server, **arguments)) as admin:
                await work(admin)

    run(connected)
