"""Handles standard streams that were closed before the start, or whose reader or terminal is gone."""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper

import click

_MODES = {"stdin": "r", "stdout": "w", "stderr": "w"}
_UNREAD = "nobody reads what is printed"
OUTPUTS = (1, 2)
"""The descriptors of standard output and standard error."""
_forgotten: set[int] = set()
"""The descriptors that were terminals and now refer to the null device. SIGHUP may redirect them before an earlier
failed write is noticed."""


def prepare_streams() -> None:
    """Make each standard stream usable, whatever it was at the start.

    A stream that was closed, as by `>&-`, and is None for Python, becomes the null device. Otherwise the next file or
    socket would get the descriptor, and with it all text that is printed there. What an output's encoding lacks is
    printed escaped.
    """
    for name, mode in _MODES.items():
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8", errors="backslashreplace"))  # noqa: SIM115
        elif mode == "w" and isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


class TerminalClosed(click.ClickException):
    """A command prints on a terminal that was closed. The exit code is that of SIGHUP, the other sign of a closed
    terminal."""

    exit_code = 128 + signal.SIGHUP

    def __init__(self) -> None:
        super().__init__("the terminal is closed")


def is_unread(error: OSError) -> bool:
    """Whether a write has failed because its reader is gone, at the other end of a pipe or at a terminal."""
    return isinstance(error, BrokenPipeError) or is_of_closed_terminal(error)


def is_of_closed_terminal(error: OSError) -> bool:
    """Whether a write has failed because its terminal is closed. A failed disk has the same error number."""
    return error.errno == errno.EIO and any(map(is_closed_terminal, OUTPUTS))


def is_closed_terminal(descriptor: int) -> bool:
    """Whether a descriptor is of a terminal that is closed, even before the start, for which `isatty` is false."""
    return descriptor in _forgotten or (is_closed(descriptor) and is_device(descriptor))


def is_device(descriptor: int) -> bool:
    """Whether a descriptor is of a terminal (a character device), not of a pipe or file."""
    return stat.S_ISCHR(os.fstat(descriptor).st_mode)


def is_closed(descriptor: int) -> bool:
    """Whether the reading end of a pipe is closed, or a terminal is closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def forget_readers() -> None:
    """Redirect outputs that nobody reads to the null device, since Python flushes them at its end."""
    forget(filter(is_closed, OUTPUTS))


def terminals() -> list[int]:
    """The descriptors of standard output and standard error that are terminals."""
    return [number for number in OUTPUTS if os.isatty(number)]


def forget(descriptors: Iterable[int]) -> None:
    """Redirect descriptors to the null device, because their readers are gone and each write would fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        if is_device(descriptor):
            _forgotten.add(descriptor)
        os.dup2(null, descriptor)
    os.close(null)


@contextmanager
def read_by_nobody() -> Iterator[None]:
    """Run a block whose output may be read by nobody. If so, the command goes on, and ends as it would otherwise."""
    try:
        yield
    except OSError as error:
        if not is_unread(error):
            raise
        forget_readers()


@contextmanager
def must_be_read() -> Iterator[None]:
    """Run a block that fails if it ends because nobody reads its output. Raises click.ClickException."""
    try:
        yield
    except OSError as error:
        if not is_unread(error):
            raise
        end = TerminalClosed() if is_of_closed_terminal(error) else click.ClickException(f"{_UNREAD}: {error}")
        forget_readers()
        raise failure_before(error) or end from error


def failure_before(error: OSError) -> Exception | None:
    """The failure with which a command was about to end when it printed to an output that nobody reads; None if there
    was no failure."""
    before = error.__context__
    while before is not None:
        is_success = isinstance(before, click.exceptions.Exit) and before.exit_code == 0
        is_same = isinstance(before, BrokenPipeError) or (isinstance(before, OSError) and before.errno == error.errno)
        if isinstance(before, Exception) and not is_success and not is_same:
            return before
        before = before.__context__
    return None
