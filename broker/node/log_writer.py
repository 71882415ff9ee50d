"""`LogWriter`: writes the log of a node in a thread of its own, so that a slow reader of the log holds up no task.

Such a reader is a stopped terminal, a pager, or a stuck collector of logs. The lines that wait to be written have a
bound. Further lines are dropped until the waiting lines are written; then the number of dropped lines is reported.

Write errors are ignored: a node must not end because its log is on a full disk, or because nobody reads its standard
error any more. There is no other place to report the errors to.
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
"""The number of characters from which no further line may wait."""
FLUSH_S = 1.0
"""The time in seconds for which the end of the process waits for a reader of the log."""


class LogWriter:
    """Writes texts to a file in their order, in a thread.

    Args:
        file: Standard error or standard output; None if the process was started without it. If the file has a
            descriptor, texts are written to the descriptor, past the file's buffers. So a thread that waits for a
            reader holds no lock that the end of the process needs.
        dropped: Called in the thread with the number of dropped texts, once the waiting texts are written.
        size_max: The number of characters from which no further text may wait.
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
        """Have the thread write a text, or drop the text if too many characters wait. Never waits."""
        with self._changed:
            if self._dropped or self._size >= self._size_max:
                self._dropped += 1
                return
            self._waiting.append(text)
            self._size += len(text)
            self._changed.notify_all()

    def flush(self) -> None:
        """Do nothing. Files must have this method; `finish` waits until all texts are written."""

    def finish(self) -> None:
        """Wait until everything is written, at most `FLUSH_S` seconds."""
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
        """Remove the first waiting text; if none is left, return the number of texts dropped since, otherwise 0.

        Both happen under one lock, since a text is dropped only while another one waits. If texts were dropped, an
        empty text is added, so that `finish` also waits for the report of the dropped texts.
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
