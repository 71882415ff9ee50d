"""Splits input into lines, and lines into keys and values. Pure except `LineReader`."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from dataclasses import dataclass, field

from minikafka.protocol.counted import counted

READ_SIZE_BYTES = 1 << 20


class BadLine(Exception):
    """A line of input cannot become a record."""


class LineSplitter:
    """Splits chunks of bytes at newlines and buffers an incomplete line, up to `line_size_max` bytes."""

    def __init__(self, line_size_max: int) -> None:
        self._line_size_max = line_size_max
        self._pieces: list[bytes] = []
        self._size_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines completed by `data`, without newlines. Raises BadLine for a line that is too long."""
        *ended, rest = data.split(b"\n")
        if ended:
            ended[0] = b"".join([*self._pieces, ended[0]])
            self._pieces, self._size_bytes = [], 0
        if rest:
            self._pieces.append(rest)
            self._size_bytes += len(rest)
            if self._size_bytes > self._line_size_max:
                raise BadLine(
                    f"a line of more than {counted(self._line_size_max, 'byte')}; "
                    "raise the limit with --option max_request_size=…"
                )
        return ended

    def end(self) -> list[bytes]:
        """The last line, if it has no newline."""
        rest, self._pieces = b"".join(self._pieces), []
        return [rest] if rest else []


class LineReader:
    """Reads lines of a file, a pipe or a terminal as they arrive.

    The reader uses the bare descriptor, without the buffer and the lock of Python's file objects.
    """

    def __init__(self, descriptor: int, line_size_max: int) -> None:
        self._descriptor = descriptor
        self._splitter = LineSplitter(line_size_max)
        self.at_end = False

    def wait(self) -> None:
        """Block until input is available. Reads nothing, so that an abandoned wait loses no data."""
        waiting = select.poll()  # select itself takes no descriptor above 1,023
        waiting.register(self._descriptor, select.POLLIN)
        waiting.poll()

    def read(self) -> list[bytes]:
        """Read available input, and return the lines completed by it. Raises BadLine, OSError."""
        data = os.read(self._descriptor, READ_SIZE_BYTES)
        if data:
            return self._splitter.feed(data)
        self.at_end = True
        return self._splitter.end()


@dataclass
class Columns:
    """Keys and values of records. `keys` is None without a separator; `error` describes the first invalid line."""

    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] | None = None
    error: str = ""


def columns_of(
    lines: Sequence[bytes], first_number: int, *, separator: bytes | None, null: bytes | None, size_max: int
) -> Columns:
    """Split lines into keys and values, up to the first invalid line.

    Args:
        lines: the lines, without newlines.
        first_number: the number of the first line, for error messages.
        separator: the text between key and value; None if lines are values.
        null: the text that stands for a null key or value; None if no text does.
        size_max: the largest size of key and value together, in bytes.
    """
    if separator is None and null is None and len(max(lines, key=len, default=b"")) <= size_max:
        return Columns(list(lines))
    columns = Columns(keys=None if separator is None else [])
    for number, line in enumerate(lines, first_number):
        key, found, value = line.partition(separator) if separator else (b"", b"", line)
        if separator and not found:
            columns.error = f"line {number} has no key: no separator {separator!r} in {shortened(line)}"
            break
        if len(key) + len(value) > size_max:
            columns.error = (
                f"line {number} is too long: {counted(len(line), 'byte')}, at most {size_max:,} fit into a record; "
                "raise it with --option max_request_size=… (and the topic's max.message.bytes)"
            )
            break
        columns.values.append(None if value == null else value)
        if columns.keys is not None:
            columns.keys.append(None if key == null else key)
    return columns


def shortened(line: bytes) -> str:
    """A line, shortened for an error message."""
    text = line.decode(errors="replace")
    return repr(text if len(text) <= 60 else text[:59] + "…")
