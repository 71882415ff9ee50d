"""Runs the command line in tests: its results, and the types of the fixtures in `tests/cli/conftest.py`."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ran:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Minikafka = Callable[..., Ran]
"""`minikafka("topics", "list", stdin=b"…")` runs in this process."""
Start = Callable[..., "subprocess.Popen[bytes]"]
"""`started("consume", "t")` is a process of its own with pipes."""
PATIENT_MS = 60_000
"""The timeout of requests in tests, longer than the default of two or three seconds."""
PATIENTLY = (
    "import sys; from minikafka.cli import main; from minikafka.cli.arguments import options; "
    "from minikafka.cli.commands import top; "
    f"options.CONNECT_TIMEOUT_MS = options.FIND_TOPIC_TIMEOUT_MS = top.API_TIMEOUT_MS = {PATIENT_MS}; "
    f"options.FIND_TOPIC_SILENTLY_MS = {PATIENT_MS}; "
    "main.main(sys.argv[1:])"
)


def exit_code(code: object) -> int:
    """The exit code as the shell shows it."""
    assert code is None or isinstance(code, int), code
    return code or 0


@contextlib.contextmanager
def standard_input(path: Path, data: bytes) -> Iterator[None]:
    """Descriptor 0 reads these bytes."""
    path.write_bytes(data)
    before = os.dup(0)
    with path.open("rb") as file:
        os.dup2(file.fileno(), 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "minikafka.cli.main", *words]


def patient_command(words: Sequence[str]) -> list[str]:
    """As `command`, with a request timeout of a minute."""
    return [sys.executable, "-c", PATIENTLY, *words]


def waiting_bytes(descriptor: int) -> int:
    """The number of unread bytes in a pipe."""
    found = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, found)
    return found[0]
