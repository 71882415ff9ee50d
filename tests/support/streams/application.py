"""The application `Pipelines.java` as a process, its inputs and its outputs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import confluent_kafka as ck

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin, Producer
from support.java_programs import compiled
from support.streams.pipelines import INPUTS, Input

PARTITIONS = 2
OUTPUTS = ("counts", "joined", "users")
LOG_CHARACTERS = 3_000


class Application:
    """The processes of one application id.

    Args:
        command: Runs the program: `compile_in`.
        folder: For its state and its output.
        guarantee, commit_ms: `processing.guarantee`, `commit.interval.ms`.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, cluster: LocalCluster, name: str, guarantee: str, commit_ms: int
    ) -> None:
        self._folder = folder
        self._command = [*command, cluster.bootstrap, name, str(folder / "state"), guarantee, str(commit_ms)]
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        with Admin(cluster.bootstrap) as admin:
            for topic in (*INPUTS, *OUTPUTS):
                admin.create_topic(f"{name}-{topic}", partitions=PARTITIONS, replication_factor=3)

    def keep_running(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self.starts += 1
            with (self._folder / f"application-{self.starts}.log").open("wb") as log:
                self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def log_tail(self) -> str:
        """The last lines of its output."""
        return (self._folder / f"application-{self.starts}.log").read_text(errors="replace")[-LOG_CHARACTERS:]

    def __enter__(self) -> Application:
        self.keep_running()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def compile_in(folder: Path) -> list[str]:
    """Compile the application; the command that runs it."""
    return compiled(Path(__file__).with_name("Pipelines.java"), folder, heap="160m")


def write(producer: Producer, name: str, given: Iterable[Input]) -> None:
    """Write inputs, and wait until they are acknowledged."""
    for one in given:
        producer.send(
            f"{name}-{one.topic}", one.value.encode(), key=one.key.encode(), timestamp_ms=one.timestamp_ms
        )
    producer.flush()


class Results:
    """A read_committed consumer of all outputs, which remembers what it has seen."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.seen: dict[str, list[tuple[str, str]]] = {topic: [] for topic in OUTPUTS}
        self._prefix = f"{name}-"
        self._consumer = ck.Consumer({
            "bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed",
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0,
        })  # fmt: skip
        self._consumer.assign([
            ck.TopicPartition(self._prefix + topic, index, 0) for topic in OUTPUTS for index in range(PARTITIONS)
        ])

    @property
    def count(self) -> int:
        """The number of records so far."""
        return sum(map(len, self.seen.values()))

    def read(self, timeout_s: float) -> None:
        """Read what is there within the time."""
        for message in self._consumer.consume(5_000, timeout_s):
            if message.error() is None:
                found = self.seen[message.topic().removeprefix(self._prefix)]
                found.append((message.key().decode(), message.value().decode()))
