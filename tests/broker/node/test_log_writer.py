"""The log of a node whose standard error nobody reads: whoever logs does not wait, and what is lost is counted."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import resource
import subprocess
import sys
import threading
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from minikafka.broker.node.log_writer import LogWriter

PROGRAM = """
import sys
import structlog
from minikafka.broker.node.logging_setup import log_to_stderr

writer = log_to_stderr({"root": "INFO"}, colors=False)
for number in range(int(sys.argv[1])):
    structlog.get_logger().info("connection closed", number=number, why="x" * 200)
print("logged", flush=True)
sys.stdin.readline()
writer.finish()
"""
LINES = 20_000
"""More than the buffer of a pipe and the bound of waiting lines have room for."""


class Unread(StringIO):
    """A reader that reads once it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.reading, self.asked = threading.Event(), threading.Event()

    def write(self, text: str) -> int:
        self.asked.set()
        assert self.reading.wait(60)
        return super().write(text)


def test_lines_beyond_the_bound_are_dropped_and_counted_at_the_place_of_the_gap() -> None:
    file = Unread()
    writer = LogWriter(file, lambda lines: writer.write(f"dropped {lines}\n"), size_max=20)
    writer.write("0 23456789\n")
    assert file.asked.wait(60)
    for number in range(1, 10):
        writer.write(f"{number} 23456789\n")
    writer.write("short\n")  # Not a line behind the gap without a word of it.
    file.reading.set()
    writer.finish()
    writer.write("later\n")
    writer.finish()
    assert file.getvalue() == "0 23456789\n1 23456789\ndropped 9\nlater\n"


@pytest.mark.parametrize("release", range(1, 9))
def test_a_gap_at_any_moment_is_counted_and_ends(monkeypatch: pytest.MonkeyPatch, release: int) -> None:
    """Texts that fill all room come whenever the writer's thread releases the lock."""
    releases, over = 0, threading.Event()

    class Interleaved(threading.Condition):
        def __exit__(self, *error: object) -> None:
            nonlocal releases
            super().__exit__(*cast("tuple[None, None, None]", error))
            releases += threading.current_thread().name == "log writer"
            if releases == release and not over.is_set():
                over.set()
                writer.write("full of this\n")
                writer.write("full of this\n")
                told.set()

    told = threading.Event()
    monkeypatch.setattr(
        "minikafka.broker.node.log_writer.threading",
        SimpleNamespace(Condition=Interleaved, Thread=threading.Thread),
    )
    monkeypatch.setattr("minikafka.broker.node.log_writer.FLUSH_S", 60)
    file, dropped, written = StringIO(), list[int](), 2
    writer = LogWriter(file, dropped.append, size_max=10)
    while not told.is_set():
        writer.write("full of this\n")
        writer.finish()
        written += 1
    writer.finish()
    writer.write("later\n")
    writer.finish()
    *lines, last = file.getvalue().splitlines()
    assert last == "later"
    assert len(lines) + sum(dropped) == written


CLOSED = """
import sys, threading
from minikafka.broker.node.log_writer import LogWriter
from minikafka.broker.node.logging_setup import log_to_stderr

writers = [LogWriter(sys.stdout), log_to_stderr({"root": "INFO"}, colors=False)]
for writer in writers:
    writer.write("text")
    writer.finish()
sys.exit(10 + sum(thread.name == "log writer" for thread in threading.enumerate()))
"""


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_process_without_standard_output_or_error_runs(closed: str) -> None:
    command = ["sh", "-c", f'"$0" -c "$1" {closed}', sys.executable, CLOSED]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 12


def test_an_end_waits_for_a_reader_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.broker.node.log_writer.FLUSH_S", 0.01)
    file = Unread()
    writer = LogWriter(file)
    writer.write("text\n")
    writer.finish()
    assert not file.getvalue()
    file.reading.set()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "terminal"])
@pytest.mark.parametrize("is_read_later", [True, False])
def test_whoever_logs_does_not_wait_for_a_reader(kind: str, *, is_read_later: bool) -> None:
    reader, written = os.pipe() if kind == "pipe" else pty.openpty()
    command = [sys.executable, "-c", PROGRAM, str(LINES)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=written, text=True)
    os.close(written)
    try:
        with timer(process):
            assert cast("StringIO", process.stdout).readline() == "logged\n"
        text = read_until_dropped(reader) if is_read_later else b""
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
    finally:
        process.kill()
        os.close(reader)
    if is_read_later and kind == "pipe":
        *lines, last = [json.loads(line) for line in text.splitlines()]
        assert [line["number"] for line in lines] == list(range(len(lines)))
        assert last["lines"] == LINES - len(lines)


class timer:  # noqa: N801 (a context manager)
    """Ends a process that is stuck, so that its test fails."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._timer = threading.Timer(30, process.kill)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()


def read_until_dropped(reader: int) -> bytes:
    text = b""
    while not (text.endswith(b"\n") and b"lines of the log dropped" in text):
        text += os.read(reader, 1 << 16)
    return text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_under_the_log_does_not_end_the_node() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as file:
        writer = LogWriter(file)
        for _ in range(1000):
            writer.write("x" * 100)
        writer.finish()
    writer.write("to a closed file")
    writer.finish()


@pytest.mark.parametrize("descriptor_min", [0, 2000])
def test_a_descriptor_that_does_not_block_loses_nothing(descriptor_min: int) -> None:
    """Not a high one either: `select` refuses those above 1,023."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= descriptor_min:
        pytest.skip("no descriptors as high")
    reader, low = os.pipe()
    written = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, descriptor_min)
    os.close(low)
    os.set_blocking(written, False)
    with open(written, "w", encoding="ascii") as file:
        writer = LogWriter(file)
        for _ in range(1000):
            writer.write("ä" + "x" * 999)
        text = b""
        while len(text) < 1000 * 1003:
            text += os.read(reader, 1 << 16)
        writer.finish()
    os.close(reader)
    assert text == (b"\\xe4" + b"x" * 999) * 1000
