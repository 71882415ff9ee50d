"""Bytes that come in pieces, as whole lines; and lines as keys and values. Pure but for `LineReader`."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from dataclasses import dataclass, field

READ_SIZE_BYTES = 1 << 20


class BadLine(Exception):
    """A line that cannot become a record."""


class LineSplitter:
    """Cuts at every newline; what stands behind the last one waits for more, up to `line_size_max` bytes."""

    def __init__(self, line_size_max: int) -> None:
        self._line_size_max = line_size_max
        self._pieces: list[bytes] = []
        self._size_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now, without their newlines. Raises BadLine for one that grows too long."""
        *ended, rest = data.split(b"\n")
        if ended:
            ended[0] = b"".join([*self._pieces, ended[0]])
            self._pieces, self._size_bytes = [], 0
        if rest:
            self._pieces.append(rest)
            self._size_bytes += len(rest)
            if self._size_bytes > self._line_size_max:
                raise BadLine(f"a line of more than {self._line_size_max} bytes")
        return ended

    def end(self) -> list[bytes]:
        """The last line where it has no newline."""
        rest, self._pieces = b"".join(self._pieces), []
        return [rest] if rest else []


class LineReader:
    """Lines of a file, a pipe or a terminal as they come.

    It reads the bare descriptor: nothing is held back in a buffer, and no lock is held while it waits.
    """

    def __init__(self, descriptor: int, line_size_max: int) -> None:
        self._descriptor = descriptor
        self._splitter = LineSplitter(line_size_max)
        self.at_end = False

    def wait(self) -> None:
        """Until something has come. Nothing is taken yet, so whoever gives up the wait loses nothing."""
        waiting = select.poll()  # select itself takes no descriptor above 1,023
        waiting.register(self._descriptor, select.POLLIN)
        waiting.poll()

    def read(self) -> list[bytes]:
        """What has come; the lines in it, if it makes any whole. Raises BadLine, OSError."""
        data = os.read(self._descriptor, READ_SIZE_BYTES)
        if data:
            return self._splitter.feed(data)
        self.at_end = True
        return self._splitter.end()


@dataclass
class Columns:
    """Records to be: values, keys where there is a separator, and why it ended before the last line, if it did."""

    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] | None = None
    fault: str = ""


def columns_of(
    lines: Sequence[bytes], first_number: int, *, separator: bytes | None, null: bytes | None, size_max: int
) -> Columns:
    """Lines as records, up to the first that cannot be one.

    Args:
        first_number: the number of the first line, for the sentence that says which one is wrong.
        separator: stands between key and value; None: lines are values.
        null: what stands for null.
        size_max: of key and value together.
    """
    if separator is None and null is None and len(max(lines, key=len, default=b"")) <= size_max:
        return Columns(list(lines))
    columns = Columns(keys=None if separator is None else [])
    for number, line in enumerate(lines, first_number):
        key, found, value = line.partition(separator) if separator else (b"", b"", line)
        if separator and not found:
            columns.fault = f"line {number} has no key: {separator!r} is not in {shortened(line)}"
            break
        if len(key) + len(value) > size_max:
            columns.fault = (
                f"line {number} is too long for a record: {len(line)} bytes, at most {size_max} fit; "
                "--option max_request_size=… allows more, if the topic's max.message.bytes does"
            )
            break
        columns.values.append(None if value == null else value)
        if columns.keys is not None:
            columns.keys.append(None if key == null else key)
    return columns


def shortened(line: bytes) -> str:
    """A line for an error message."""
    text = line.decode(errors="replace")
    return repr(text if len(text) <= 60 else text[:59] + "…")
