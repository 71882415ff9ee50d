"""No record is lost or duplicated if the driver, Python workers, the stream's process or the broker is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.node import NodeProcess
from support.oracle import java
from support.spark_brokers import create, produce

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
PARTITIONS = 3
BATCHES_MIN = 100
BATCHES_A_STAGE = 8
RECORDS_FIRST, RECORDS_A_STAGE, STAGES = 1_400, 280, 5
"""More than this number of batches takes in one stage."""
RECORDS = RECORDS_FIRST + STAGES * RECORDS_A_STAGE
PATIENCE_S = 240
WORKERS = ("pyspark.daemon", "pyspark/daemon")
SOURCE = ("python_streaming_source_runner",)


class Keeper:
    """The driver of `support.spark_keeper`, in a process group of its own."""

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        self.folder = folder
        self._command = [sys.executable, "-m", "support.spark_keeper", bootstrap, topic, str(folder)]
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

    def kill_python(self, *words: str) -> int:
        """Sends SIGKILL to Spark's Python processes with a word in their command line; returns their number."""
        killed = 0
        for pid in _descendants(self._process.pid):
            if any(word in _command(pid) for word in words):
                with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        return killed

    def batches(self) -> int:
        kept = self.folder / "kept"
        return len(list(kept.iterdir())) if kept.exists() else 0

    def rows(self) -> list[str]:
        return [line for path in (self.folder / "kept").iterdir() for line in path.read_text().splitlines()]

    def wait_for(self, what: Callable[[], bool], why: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            assert self._process.poll() is None, (self.folder / "log").read_text()[-3000:]
            if time.monotonic() > deadline:
                raise AssertionError(f"{why}: {self.batches()} batches; {(self.folder / 'log').read_text()[-3000:]}")
            time.sleep(0.05)

    def wait_for_batches(self, wanted: int) -> None:
        self.wait_for(lambda: self.batches() >= wanted, f"waiting for batch {wanted}")


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


def send(node: NodeProcess, first: int, last: int) -> None:
    messages = [{"value": b"%d" % number, "partition": number % PARTITIONS} for number in range(first, last)]
    produce(node.bootstrap, "restarts", messages, **{"enable.idempotence": True})


@pytest.mark.skipif(java() is None, reason="no Java")
def test_killed_processes_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    with NodeProcess(tmp_path / "data") as node:
        create(node.bootstrap, {"restarts": PARTITIONS})
        send(node, 0, RECORDS_FIRST)
        keeper = Keeper(node.bootstrap, "restarts", tmp_path)
        stages = iter(range(STAGES))

        def go_on() -> None:
            """Produces records, so that the query always has some to read."""
            wanted, first = keeper.batches() + BATCHES_A_STAGE, RECORDS_FIRST + next(stages) * RECORDS_A_STAGE
            send(node, first, first + RECORDS_A_STAGE)
            keeper.wait_for_batches(wanted)

        try:
            go_on()
            keeper.kill()
            keeper.start()
            go_on()
            keeper.wait_for(lambda: keeper.kill_python(*WORKERS) > 0, "waiting for workers")
            go_on()
            node.kill()
            node.restart()
            go_on()
            keeper.wait_for(lambda: keeper.kill_python(*SOURCE) > 0, "waiting for the stream's process")
            go_on()
            keeper.kill()
            keeper.start()
            keeper.wait_for(lambda: len(keeper.rows()) >= RECORDS, "waiting for the last records")
        finally:
            keeper.kill()
        rows = keeper.rows()
        assert keeper.batches() >= BATCHES_MIN
        assert [value for value, count in Counter(rows).items() if count > 1] == []
        assert sorted(int(one.split()[2]) for one in rows) == list(range(RECORDS))
