"""Redraws lines of text in place on a terminal.

It uses the two escape sequences that all terminals support (cursor up, clear to end of screen), and no other packages.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

from minikafka.protocol.counted import counted
from minikafka.protocol.visible import obeys_escapes, visible


def is_terminal(out: TextIO) -> bool:
    """Whether `out` is a terminal that obeys escape sequences, which a terminal with `TERM=dumb` does not."""
    return out.isatty() and obeys_escapes(os.environ.get("TERM", ""))


class Redrawing:
    """Lines on a terminal that replace the lines drawn before. On another output they follow after an empty line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines_shown = 0
        self._has_shown = False

    def show(self, lines: Sequence[str]) -> None:
        """Draw `lines`, cut to the size of the terminal, because the cursor cannot go up beyond its first line."""
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
    """The lines cut to the columns and rows of a terminal; the last row then says how many lines are left out."""
    rows = max(size.lines - 1, 1) if size.lines else len(lines)
    columns = size.columns or None
    if len(lines) <= rows:
        return [line[:columns] for line in lines]
    shown = [line[:columns] for line in lines[: rows - 1]]
    return [*shown, f"… and {counted(len(lines) - len(shown), 'line')} more"[:columns]]
