"""Runs the async part of a command, and handles Ctrl-C, SIGTERM and SIGHUP, which is sent when a terminal is closed.

The first signal interrupts blocks marked as interruptible (reading input, waiting for records), so that the command
can deliver, commit and print a summary; work that takes a moment is reported. The second signal cancels everything, and
ends the process `PROMPTLY_S` later if requests to the cluster are still in progress. `TERM_GRACE_S` after SIGTERM or
SIGHUP everything is cancelled as well, since their sender waits for the end and sends no second signal. The exit code
is 128 + signal.

The event loop is trio's, because its worker threads do not delay the exit of the process: one of them may be blocked
in a read of a terminal or in a write to a pager.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.terminal.output import echo
from minikafka.cli.terminal.standard_streams import forget, read_by_nobody, terminals

if TYPE_CHECKING:
    import anyio
    from anyio.abc import TaskStatus

    from minikafka.client import Admin


TERM_GRACE_S = 5
MOMENT_S = 0.3
"""The time after the first signal from which a command reports what it still does."""
PROMPTLY_S = 1.0
"""The time in which clients may abort a transaction or leave a group after the second signal."""


class Stop:
    """The stop request of the user.

    Attributes:
        signal: the number of the first signal received; 0 for none.
        starts: whether the command has not begun any work that must be completed; then the first signal cancels all.
        doing: returns the work that remains after the first signal, in words.
        last_words: prints what the user must know at the end; called in a thread if the process is ended by force.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.starts = False
        self.doing: Callable[[], str] = lambda: "ending what was begun"
        self.last_words: Callable[[], None] = lambda: None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._forces: list[Timer] = []
        self._everything: anyio.CancelScope | None = None
        self._waits: list[anyio.CancelScope] = []
        self._terminals = terminals()

    @contextmanager
    def interruptible(self) -> Iterator[anyio.CancelScope]:
        """Run a block that the first signal cancels; cancel it immediately if the signal was received before."""
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
        """Cancel interruptible blocks at the first signal, and everything at the second signal, or `TERM_GRACE_S` after
        SIGTERM or SIGHUP."""
        import anyio

        if number == signal.SIGHUP:
            forget(self._terminals)
            if self.signal == number:
                return  # A shell that ends passes the signal on, and the kernel sends it once more.
        if number != signal.SIGINT and self._everything is not None:
            self._everything.deadline = min(self._everything.deadline, anyio.current_time() + TERM_GRACE_S)
            self._end_by_force_after(TERM_GRACE_S + PROMPTLY_S)
        at_once = self.signal or self.starts
        scopes = [self._everything] if at_once else list(self._waits)
        if self.signal:
            self._end_by_force_after(PROMPTLY_S)
        self.signal = self.signal or number
        for scope in scopes:
            if scope is not None:
                scope.cancel()
        if self._tasks is not None and not at_once:
            self._tasks.start_soon(self._say_what_is_left)

    def _end_by_force_after(self, seconds: float) -> None:
        force = Timer(seconds, self._end_by_force)
        force.daemon = True
        force.start()
        self._forces.append(force)

    def _end_by_force(self) -> None:
        self.last_words()
        sys.stderr.flush()
        os._exit(128 + self.signal)

    async def _say_what_is_left(self) -> None:
        """Report what the command still does after the first signal, if this takes longer than `MOMENT_S`."""
        import anyio

        await anyio.sleep(MOMENT_S)
        grace = f", and {TERM_GRACE_S} s after SIGTERM it ends anyway" if self.signal == signal.SIGTERM else ""
        with read_by_nobody():
            echo(f"Still {self.doing()}; another Ctrl-C ends this at once{grace}.", err=True)

    async def run(self, work: Callable[[Stop], Awaitable[None]]) -> int:
        """Run `work` and handle signals. Returns the first signal, or 0. Raises the exception of `work`."""
        import anyio

        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            self._everything, self._tasks = tasks.cancel_scope, tasks
            await tasks.start(self._listen)
            try:
                await work(self)
            except Exception as error:  # noqa: BLE001 (raised below: the task group would wrap it)
                failure = error
            tasks.cancel_scope.cancel()
        for one in self._forces:
            one.cancel()
        if failure is not None:
            raise failure
        return self.signal

    async def _listen(self, *, task_status: TaskStatus[None]) -> None:
        import anyio

        is_kept = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # by nohup
        hang_up = () if is_kept else (signal.SIGHUP,)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, *hang_up) as signals:
            task_status.started()
            async for number in signals:
                self.on_signal(number)


def run(work: Callable[[Stop], Awaitable[None]]) -> None:
    """Run `work` to its end.

    Raises its exceptions, click.UsageError for options that a client rejects, and click's Exit after a signal.
    """
    import anyio

    from minikafka.cli.arguments.options import where_to_correct
    from minikafka.client.options import InvalidOption

    show_warnings()
    try:
        number = anyio.run(Stop().run, work, backend="trio")
    except InvalidOption as error:
        raise click.UsageError(f"{error}{where_to_correct(error.option)}") from error
    if number:
        raise click.exceptions.Exit(128 + number)


class Warnings(logging.Handler):
    """Prints the warnings of clients, such as what a client waits for and why."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message of a record."""
        with read_by_nobody():
            echo(record.getMessage(), err=True)


def show_warnings() -> None:
    """Print the warnings of clients on standard error, instead of passing them to Python's default handler."""
    logger = logging.getLogger("minikafka.client")
    if not any(isinstance(one, Warnings) for one in logger.handlers):
        logger.addHandler(Warnings(logging.WARNING))
        logger.propagate = False


def with_admin(bootstrap_server: str, work: Callable[[Admin], Awaitable[None]], **arguments: Any) -> None:
    """Run `work` with a connected `Admin` that is created with `arguments`. Raises the errors of `run`."""
    from minikafka.cli.arguments.options import client_arguments
    from minikafka.client import Admin
    from minikafka.client.options import AdminOptions

    async def connected(stop: Stop) -> None:
        with stop.interruptible():
            async with Admin(**client_arguments(AdminOptions, bootstrap_server, **arguments)) as admin:
                await work(admin)

    run(connected)
