"""Redraws lines of text in place on a terminal.

With the two escape sequences that all terminals support (cursor up, clear to end of screen), without further packages.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

from minikafka.protocol.counted import counted
from minikafka.protocol.visible import obeys_escapes, visible


def is_terminal(out: TextIO) -> bool:
    """Whether `out` is a terminal that obeys escape sequences, which one with `TERM=dumb` does not."""
    return out.isatty() and obeys_escapes(os.environ.get("TERM", ""))


class Redrawing:
    """Lines on a terminal that replace those of the call before; elsewhere they follow them after an empty line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines_shown = 0
        self._has_shown = False

    def show(self, lines: Sequence[str]) -> None:
        """Draw `lines`, cut to what fits on the terminal: the cursor cannot go up beyond its first line."""
        up, lines = "", [visible(line) for line in lines]
        if is_terminal(self._out):
            lines = fitting(lines, os.get_terminal_size(self._out.fileno()))
            up = (f"\x1b[{self._lines_shown}A" if self._lines_shown else "") + "\x1b[J"
            self._lines_shown = len(lines)
        elif self._has_shown:
            up = "\n"
        self._has_shown = True
        self._out.write(up + "".join(f"{line}\n" for line in lines))
        self._out.flush()


def fitting(lines: Sequence[str], size: os.terminal_size) -> list[str]:
    """The lines without what is beyond the last column, and without those for which there is no room."""
    rows = max(size.lines - 1, 1) if size.lines else len(lines)
    columns = size.columns or None
    if len(lines) <= rows:
        return [line[:columns] for line in lines]
    shown = [line[:columns] for line in lines[: rows - 1]]
    return [*shown, f"… and {counted(len(lines) - len(shown), 'line')} more"[:columns]]
