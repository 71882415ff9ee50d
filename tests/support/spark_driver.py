"""A Spark driver in a process of its own, which tests kill and start again, with its JVM and its Python processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 600
WORKERS = ("pyspark.daemon", "pyspark/daemon")
SOURCE = ("python_streaming_source_runner",)
"""Words in the command lines of the workers, and of a stream's process."""


class SparkDriver:
    """Runs `python -m MODULE ARGUMENTS… FOLDER` in a process group of its own.

    Args:
        folder: for the driver, and its output (`log`).
    """

    def __init__(self, folder: Path, module: str, *arguments: str) -> None:
        self.folder = folder
        self._command = [sys.executable, "-m", module, *arguments, str(folder)]
        self.start()

    def start(self) -> None:
        tests = str(Path(__file__).resolve().parents[1])
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env={**os.environ, "PYTHONPATH": tests}, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self) -> None:
        """Sends SIGKILL to the driver and its JVM."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_processes(self, *words: str) -> int:
        """Sends SIGKILL to Spark's processes with a word in their command line; returns their number."""
        killed = 0
        for pid in _descendants(self._process.pid):
            if any(word in _command(pid) for word in words):
                with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        return killed

    def wait_for(self, what: Callable[[], bool], why: str) -> None:
        """Raises AssertionError if the driver ends, or after `PATIENCE_S`."""
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            assert self._process.poll() is None, self.log_tail()
            if time.monotonic() > deadline:
                raise AssertionError(f"{why}: {self.log_tail()}")
            time.sleep(0.05)

    def log_tail(self) -> str:
        return (self.folder / "log").read_text()[-3000:]


def _descendants(pid: int) -> list[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
