"""Standard streams that were closed before the start, or whose reader or terminal is gone."""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

_MODES = {"stdin": "r", "stdout": "w", "stderr": "w"}
_UNREAD = "nobody reads what is printed"
OUTPUTS = (1, 2)
"""The descriptors of standard output and standard error."""
_forgotten: set[int] = set()
"""Those of them that were terminals, which SIGHUP may have said before a write that has failed is known."""


def open_closed() -> None:
    """Open the null device for streams that were closed, as by `>&-`: Python has None for them.

    Otherwise the next file or socket would get the descriptor, and what others print there.
    """
    for name, mode in _MODES.items():
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8", errors="backslashreplace"))  # noqa: SIM115


class TerminalClosed(click.ClickException):
    """The end of a command that prints on a terminal that was closed: with the exit code of SIGHUP, its other sign."""

    exit_code = 128 + signal.SIGHUP

    def __init__(self) -> None:
        super().__init__("the terminal is closed")


def is_unread(error: OSError) -> bool:
    """Whether a write has failed because its reader is gone: that of a pipe, or the terminal."""
    return isinstance(error, BrokenPipeError) or is_of_closed_terminal(error)


def is_of_closed_terminal(error: OSError) -> bool:
    """Whether a write has failed because its terminal is closed. A disk in error has the same number."""
    return error.errno == errno.EIO and any(map(is_closed_terminal, OUTPUTS))


def is_closed_terminal(descriptor: int) -> bool:
    """Whether it is a terminal that is closed, also if it was before the start: `isatty` does not know such a one."""
    return descriptor in _forgotten or (is_closed(descriptor) and is_device(descriptor))


def is_device(descriptor: int) -> bool:
    """Whether it is a terminal, as a pipe and a file are not."""
    return stat.S_ISCHR(os.fstat(descriptor).st_mode)


def is_closed(descriptor: int) -> bool:
    """Whether the reading end of a pipe is closed, or a terminal."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def forget_readers() -> None:
    """Have what is still printed go to the null device where nobody reads: Python flushes it at its end."""
    forget(filter(is_closed, OUTPUTS))


def terminals() -> list[int]:
    """Those of the standard output and error that are terminals."""
    return [number for number in OUTPUTS if os.isatty(number)]


def forget(descriptors: Iterable[int]) -> None:
    """Have what is still printed there go to the null device: the terminal is closed, and each write would fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        if is_device(descriptor):
            _forgotten.add(descriptor)
        os.dup2(null, descriptor)
    os.close(null)


@contextmanager
def read_by_nobody() -> Iterator[None]:
    """What is printed in the block may be read by nobody: the command goes on, and ends as it would have."""
    try:
        yield
    except OSError as error:
        if not is_unread(error):
            raise
        forget_readers()


@contextmanager
def must_be_read() -> Iterator[None]:
    """A block that has failed if it ends because nobody reads what it prints. Raises click.ClickException."""
    try:
        yield
    except OSError as error:
        if not is_unread(error):
            raise
        end = TerminalClosed() if is_of_closed_terminal(error) else click.ClickException(f"{_UNREAD}: {error}")
        forget_readers()
        raise failure_before(error) or end from error


def failure_before(error: OSError) -> Exception | None:
    """The failure that a command was about to end with when it printed what nobody reads; None if there was none."""
    before = error.__context__
    while before is not None:
        is_success = isinstance(before, click.exceptions.Exit) and before.exit_code == 0
        is_same = isinstance(before, BrokenPipeError) or (isinstance(before, OSError) and before.errno == error.errno)
        if isinstance(before, Exception) and not is_success and not is_same:
            return before
        before = before.__context__
    return None
