"""`LogWriter`: a text file for the log of a node, which a thread of its own writes.

A reader that does not read (a stopped terminal, a pager, a stuck collector of logs) holds up nobody who logs.
Lines that wait have a bound; further ones are dropped until those that wait are written, and their number is reported
then. Write errors are ignored: a node must not end because its log is on a full disk, or because nobody reads its
standard error any more. There is no other place to report them to.
"""

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from io import UnsupportedOperation
from typing import TextIO

__all__ = ["FLUSH_S", "LogWriter"]

SIZE_MAX = 1 << 20
"""Characters that wait; one more line may."""
FLUSH_S = 1.0
"""How long the end of the process waits for a reader."""


class LogWriter:
    """Writes texts in their order, in a thread.

    Args:
        file: Standard error or standard output; written past its buffers if it has a descriptor, so that a thread that
            waits for a reader holds no lock that the end of the process needs. None if the process was started without.
        dropped: Called in the thread with the number of the dropped texts, once there is room again.
        size_max: Characters that may wait.
    """

    def __init__(
        self, file: TextIO | None, dropped: Callable[[int], object] = lambda texts: None, *, size_max: int = SIZE_MAX
    ) -> None:
        self._write_now = _direct(file)
        self._report_dropped = dropped
        self._size_max = size_max
        self._waiting: deque[str] = deque()
        self._size = 0
        self._dropped = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="log writer", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Write soon, or drop; never waits."""
        with self._changed:
            if self._dropped or self._size >= self._size_max:
                self._dropped += 1
                return
            self._waiting.append(text)
            self._size += len(text)
            self._changed.notify_all()

    def flush(self) -> None:
        """Part of the interface of files; see `finish`."""

    def finish(self) -> None:
        """Wait until everything is written, `FLUSH_S` at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, FLUSH_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                text = self._waiting[0]
            with suppress(OSError, ValueError):  # ValueError: closed.
                self._write_now(text)
            dropped = self._written()
            if dropped:
                self._report_dropped(dropped)

    def _written(self) -> int:
        """The first text waits no more; returns how many were dropped behind it, if it was the last before the gap.

        One step, as a text is dropped only while another waits. `finish` waits for the report: an empty text does.
        """
        with self._changed:
            self._size -= len(self._waiting.popleft())
            dropped = 0
            if self._dropped and not self._waiting:
                dropped, self._dropped = self._dropped, 0
                self._waiting.append("")
            self._changed.notify_all()
            return dropped


def _direct(file: TextIO | None) -> Callable[[str], object]:
    if file is None:
        return lambda text: None
    try:
        descriptor = file.fileno()
    except (UnsupportedOperation, AttributeError, ValueError):
        return lambda text: (file.write(text), file.flush())
    return lambda text: _write_all(descriptor, text.encode(file.encoding, "backslashreplace"))


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:  # Another process has made the terminal or pipe non-blocking.
            room = select.poll()  # Not `select`, which knows no descriptor above 1,023.
            room.register(descriptor, select.POLLOUT)
            room.poll()
