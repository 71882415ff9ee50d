"""Runs a command's async part, and turns Ctrl-C and SIGTERM into a wish that it can grant in order.

The first signal interrupts what the command marked as interruptible (reading its input, waiting for records), so that
it can deliver, commit and say what it did; the second ends it at once. Either way the exit code is 128 + signal.

Under trio, as its worker threads do not hold up the end of the process: one of them may hang in a read of a terminal,
or in a write to a pager that nobody scrolls.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import anyio
    from anyio.abc import TaskStatus

    from minikafka.client import Admin


class Stop:
    """Whether the user wants an end.

    Attributes:
        signal: the number of the signal that said so; 0 for none yet.
    """

    def __init__(self) -> None:
        self.signal = 0
        self._everything: anyio.CancelScope | None = None
        self._waits: list[anyio.CancelScope] = []

    @contextmanager
    def interruptible(self) -> Iterator[anyio.CancelScope]:
        """A block that is left at the first signal, at once if that has come already."""
        import anyio

        with anyio.CancelScope() as scope:
            if self.signal:
                scope.cancel()
            self._waits.append(scope)
            try:
                yield scope
            finally:
                self._waits.remove(scope)

    def heard(self, number: int) -> None:
        """A signal has come."""
        scopes = [self._everything] if self.signal else list(self._waits)
        self.signal = self.signal or number
        for scope in scopes:
            if scope is not None:
                scope.cancel()

    async def run(self, work: Callable[[Stop], Awaitable[None]]) -> int:
        """`work`, and signals heard meanwhile; returns the first of them, or 0. Raises what `work` raises."""
        import anyio

        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            self._everything = tasks.cancel_scope
            await tasks.start(self._listen)
            try:
                await work(self)
            except Exception as error:  # noqa: BLE001 (raised below, out of reach of the group that would wrap it)
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
                self.heard(number)


def run(work: Callable[[Stop], Awaitable[None]]) -> None:
    """`work` to its end.

    Raises what it raises, click.UsageError for options that a client refused, and click's Exit after a signal.
    """
    import anyio

    from minikafka.client.options import InvalidOption

    try:
        number = anyio.run(Stop().run, work, backend="trio")
    except InvalidOption as error:
        raise click.UsageError(str(error)) from error
    if number:
        raise click.exceptions.Exit(128 + number)


def with_admin(bootstrap_server: str, work: Callable[[Admin], Awaitable[None]]) -> None:
    """Run `work` with an administrator that is connected; raises as `run`."""
    from minikafka.cli.options import client_arguments
    from minikafka.client import Admin
    from minikafka.client.options import AdminOptions

    async def connected(stop: Stop) -> None:
        with stop.interruptible():
            async with Admin(**client_arguments(AdminOptions, bootstrap_server)) as admin:
                await work(admin)

    run(connected)
