"""Kafka's command line tools in one JVM, for tests that call many: each costs a tenth of a JVM's start.

    with ToolServer(folder) as tools:
        done = tools.run("topics", ["--bootstrap-server", address, "--list"])

The tools are those of the Kafka beside the checkout, unchanged: `ToolServer.java` calls their `main` and takes what
they print and the exit code that they end with. A wrong command line of those with sub-commands ends the JVM.
"""

from __future__ import annotations

import runpy
import struct
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self

from support.java_programs import compiled
from support.oracle import KAFKA, PATIENCE_S

SOURCE = Path(__file__).with_name("ToolServer.java")
SIZE = struct.Struct(">i")


class Done(NamedTuple):
    """What a tool printed; `code` is -1 for one that did not end."""

    code: int
    out: str
    err: str


@cache
def classes() -> dict[str, str]:
    """The Java class of each tool, by its name in kafka.py."""
    found: dict[str, str] = runpy.run_path(str(KAFKA))["TOOLS"]
    return found


class ToolServer:
    """The JVM, from `with` to its end, with options of its own. Its own errors go to a file of the folder."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self._folder = folder
        self._options = options
        self._read_count = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        command = compiled(SOURCE, self._folder, heap="200m", options=self._options)
        with (self._folder / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=self._folder
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def run(self, name: str, arguments: Sequence[str], stdin: str = "", patience_s: float = PATIENCE_S) -> Done:
        """Run a tool until it ends."""
        words = [classes()[name], *arguments]
        request = _text(words[0]) + SIZE.pack(len(arguments)) + b"".join(map(_text, words[1:]))
        self._send(request + _text(stdin) + SIZE.pack(int(patience_s)))
        return Done(self._size(), self._answer().decode(), self._answer().decode())

    def logged(self) -> str:
        """What the tools have logged since the last call."""
        errors = (self._folder / "stderr").read_text(errors="replace")
        fresh, self._read_count = errors[self._read_count :], len(errors)
        return fresh

    def _send(self, request: bytes) -> None:
        assert self._process is not None, "not started"
        assert self._process.stdin is not None
        self._process.stdin.write(request)
        self._process.stdin.flush()

    def _size(self) -> int:
        return int(SIZE.unpack(self._read(SIZE.size))[0])

    def _answer(self) -> bytes:
        return self._read(self._size())

    def _read(self, count: int) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        found = self._process.stdout.read(count)
        assert len(found) == count, f"the JVM has ended: {(self._folder / 'stderr').read_text()[-2000:]}"
        return found


def _text(text: str) -> bytes:
    encoded = text.encode()
    return SIZE.pack(len(encoded)) + encoded
