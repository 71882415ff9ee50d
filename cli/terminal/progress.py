"""Shows progress on a terminal: a bar if rich is installed, otherwise a plain line."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol, Self, TextIO

from minikafka.cli.terminal.redraw import is_terminal
from minikafka.cli.terminal.standard_streams import read_by_nobody
from minikafka.protocol.counted import counted

REFRESH_S = 0.1


class Progress(Protocol):
    """A progress display, entered before the first record and left after the last."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def update(self, records: int, size_bytes: int) -> None:
        """Show the totals so far."""


class NoProgress:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def update(self, records: int, size_bytes: int) -> None:
        pass


class PlainProgress(NoProgress):
    """Redraws one line."""

    def __init__(self, out: TextIO, size_bytes_total: int | None) -> None:
        self._out = out
        self._total = size_bytes_total
        self._shown_at = 0.0
        self._width = 0

    def update(self, records: int, size_bytes: int) -> None:
        now = time.monotonic()
        if now - self._shown_at >= REFRESH_S:
            self._shown_at = now
            self._write(plain_line(records, size_bytes, self._total))

    def __exit__(self, *exception: object) -> None:
        self._write("")

    def _write(self, line: str) -> None:
        self._out.write("\r" + line.ljust(self._width) + ("" if line else "\r"))
        self._out.flush()
        self._width = len(line)


class WhileOpen(NoProgress):
    """Wraps a progress display: when the terminal is closed, the display ends and the work goes on."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown

    def __enter__(self) -> Self:
        with read_by_nobody():
            self._shown.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        with read_by_nobody():
            self._shown.__exit__(*exception)

    def update(self, records: int, size_bytes: int) -> None:
        with read_by_nobody():
            self._shown.update(records, size_bytes)


class RichProgress(NoProgress):
    """Shows a bar for a file, a counter for a pipe."""

    def __init__(self, rich_progress: Any, console: Any, size_bytes_total: int | None) -> None:
        share = [rich_progress.BarColumn(), rich_progress.TaskProgressColumn()] if size_bytes_total else []
        counter = rich_progress.TextColumn("{task.fields[records]:,} records")
        columns = [counter, *share, rich_progress.TransferSpeedColumn(), rich_progress.TimeElapsedColumn()]
        self._progress = rich_progress.Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("", total=size_bytes_total, records=0)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def update(self, records: int, size_bytes: int) -> None:
        self._progress.update(self._task, completed=size_bytes, records=records)


def progress(*, size_bytes_total: int | None = None, wanted: bool = True) -> Progress:
    """The best display available; none if standard error is not a terminal."""
    if not wanted or not is_terminal(sys.stderr):
        return NoProgress()
    try:
        from rich import progress as rich_progress
        from rich.console import Console
    except ImportError:
        return WhileOpen(PlainProgress(sys.stderr, size_bytes_total))
    return WhileOpen(RichProgress(rich_progress, Console(stderr=True), size_bytes_total))


def plain_line(records: int, size_bytes: int, size_bytes_total: int | None) -> str:
    """The line of a plain display: `1,000 records, 0.1 MB (12%)`."""
    share = f" ({100 * size_bytes // size_bytes_total}%)" if size_bytes_total else ""
    return f"{counted(records, 'record')}, {size_bytes / (1 << 20):.1f} MB{share}"
