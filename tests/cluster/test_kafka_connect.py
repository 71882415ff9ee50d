"""Kafka Connect on three nodes: a source that writes exactly once (KIP-618), and a sink, while things are killed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import confluent_kafka as ck
import pytest
from support.clusters import heal
from support.kafka_connect import Worker, distributed
from support.oracle import needs_oracle

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin

LINES = 1_500
"""How many lines each part has."""
BATCH = 100
PATIENCE_S = 120.0
READ_S = 0.5

pytestmark = [needs_oracle, pytest.mark.slow, pytest.mark.oracle, pytest.mark.timeout(600)]


class Committed:
    """What a read_committed consumer of the topic has seen."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.seen: Counter[str] = Counter()
        self._consumer = ck.Consumer({
            "bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed",
            "enable.auto.commit": False, "log_level": 0,
        })  # fmt: skip
        self._consumer.assign([ck.TopicPartition(topic, 0, 0)])

    def read(self) -> None:
        for message in self._consumer.consume(5_000, READ_S):
            if message.error() is None:
                self.seen[message.value().decode()] += 1


def until(worker: Worker, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline, worker.log_tail()
        time.sleep(0.1)


def write_part(path: Path, number: int) -> list[str]:
    """Append a part to the file that the source reads; its lines."""
    lines = [f"part {number} line {line}" for line in range(LINES)]
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))
    return lines


def test_a_source_writes_each_line_once_and_a_sink_receives_all(
    three: LocalCluster, tmp_path: Path, name: str
) -> None:
    given, taken = tmp_path / "given.txt", tmp_path / "taken.txt"
    lines = write_part(given, 0)
    with Admin(three.bootstrap) as admin:
        admin.create_topic(name, partitions=1, replication_factor=3, configs={"min.insync.replicas": "2"})
    committed = Committed(three.bootstrap, name)

    def has_read(count: int) -> bool:
        committed.read()
        return len(committed.seen) >= count

    file = "org.apache.kafka.connect.file.FileStream"
    with Worker(tmp_path, distributed(three.bootstrap, f"{name}-workers")) as worker:
        worker.put(
            "source", connector_class=f"{file}SourceConnector", tasks_max="1", file=str(given), topic=name,
            exactly_once_support="required", batch_size=str(BATCH),
        )  # fmt: skip
        worker.put(
            "sink", connector_class=f"{file}SinkConnector", tasks_max="1", file=str(taken), topics=name,
            consumer_override_isolation_level="read_committed",
        )  # fmt: skip
        until(worker, lambda: has_read(LINES))
        lines += write_part(given, 1)
        until(worker, lambda: has_read(LINES + 1))
        worker.kill()
        with Admin(three.bootstrap) as admin:
            leader = admin.describe_topic(name).partitions[0].leader
        three.kill(leader)
        worker.start()
        lines += write_part(given, 2)
        until(worker, lambda: has_read(3 * LINES))
        until(worker, lambda: set(taken.read_text().splitlines()) >= set(lines))
        assert worker.states("source") == worker.states("sink") == ["RUNNING", "RUNNING"]
    heal(three)
    assert committed.seen == Counter(lines)
