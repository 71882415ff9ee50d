"""The application `Pipelines.java` as a process, its inputs and its outputs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka as ck

from minikafka.client.blocking import Admin, Producer
from support.java_programs import compiled
from support.streams.pipelines import INPUTS, Input

PARTITIONS = 2
OUTPUTS = ("counts", "joined", "users")
LOG_CHARACTERS = 3_000


class Application:
    """The processes of one application id, or of several.

    Args:
        command: Runs the program: `compile_in`.
        folder: For its state and its output.
        guarantee, commit_ms: `processing.guarantee`, `commit.interval.ms`.
        more: Files with further settings, each of an application: with several files, its id and its servers as well.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        bootstrap: str,
        name: str,
        guarantee: str,
        commit_ms: int,
        more: Sequence[Path] = (),
    ) -> None:
        self._folder = folder
        self._command = [*command, bootstrap, name, str(folder / "state"), guarantee, str(commit_ms), *map(str, more)]
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

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


def create_topics(admin: Admin, name: str, replicas: int) -> None:
    """Create the inputs and outputs of an application id."""
    for topic in (*INPUTS, *OUTPUTS):
        admin.create_topic(f"{name}-{topic}", partitions=PARTITIONS, replication_factor=replicas)


def compile_in(folder: Path, heap: str = "160m", options: Sequence[str] = ()) -> list[str]:
    """Compile the application; the command that runs it, with these options of the JVM."""
    return compiled(Path(__file__).with_name("Pipelines.java"), folder, heap, options)


def write(producer: Producer, name: str, given: Iterable[Input]) -> None:
    """Write inputs, and wait until they are acknowledged."""
    for one in given:
        producer.send(
            f"{name}-{one.topic}", one.value.encode(), key=one.key.encode(), timestamp_ms=one.timestamp_ms
        )
    producer.flush()


class Results:
    """A read_committed consumer of all outputs, which remembers what it has seen.

    Args:
        options: further options of librdkafka.
    """

    def __init__(self, bootstrap: str, name: str, options: Mapping[str, Any] | None = None) -> None:
        self.seen: dict[str, list[tuple[str, str]]] = {topic: [] for topic in OUTPUTS}
        self._prefix = f"{name}-"
        self._consumer = ck.Consumer({
            "bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed",
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0,
            **(options or {}),
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
