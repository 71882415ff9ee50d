"""Standard streams that were closed before the start, or whose reader or terminal is gone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

_MODES = {"stdin": "r", "stdout": "w", "stderr": "w"}


def open_closed() -> None:
    """Open the null device for streams that were closed, as by `>&-`: Python has None for them.

    Otherwise the next file or socket would get the descriptor, and what others print there.
    """
    for name, mode in _MODES.items():
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8", errors="backslashreplace"))  # noqa: SIM115


def forget_readers() -> None:
    """Have what is still printed go to the null device where nobody reads: Python flushes it at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            forget([stream.fileno()])


def terminals() -> list[int]:
    """Those of the standard output and error that are terminals."""
    return [number for number in (1, 2) if os.isatty(number)]


def forget(descriptors: Iterable[int]) -> None:
    """Have what is still printed there go to the null device: the terminal is closed, and each write would fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(null, descriptor)
    os.close(null)


@contextmanager
def read_by_nobody() -> Iterator[None]:
    """What is printed in the block may be read by nobody: the command goes on, and ends as it would have."""
    try:
        yield
    except BrokenPipeError:
        forget_readers()


@contextmanager
def must_be_read() -> Iterator[None]:
    """A block that has failed if it ends because nobody reads what it prints. Raises click.ClickException."""
    try:
        yield
    except BrokenPipeError as unread:
        forget_readers()
        raise failure_before(unread) or click.ClickException(f"nobody reads what is printed: {unread}") from unread


def failure_before(error: BrokenPipeError) -> Exception | None:
    """The failure that a command was about to end with when it printed what nobody reads; None if there was none."""
    before = error.__context__
    while before is not None:
        is_success = isinstance(before, click.exceptions.Exit) and before.exit_code == 0
        if isinstance(before, Exception) and not is_success and not isinstance(before, BrokenPipeError):
            return before
        before = before.__context__
    return None
