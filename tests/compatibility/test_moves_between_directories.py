"""Moves between data directories and cordoned directories, as Kafka's own tools and kafka-python ask for them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from support.clients import Outgoing, connect
from support.node import NodeProcess
from support.oracle import needs_oracle, tool
from support.steps import StepLogReader

pytestmark = pytest.mark.timeout(300)
PATIENCE_S = 60


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("moves")
    settings = {"log.dirs": f"{folder / 'one'},{folder / 'two'}"}
    with NodeProcess(folder / "node", settings=settings) as running:
        yield running


def directories(node: NodeProcess) -> list[str]:
    return str(node.settings["log.dirs"]).split(",")


def place_of(node: NodeProcess, topic: str) -> str:
    return next(one for one in directories(node) if (Path(one) / f"{topic}-0").is_dir())


def other_place(node: NodeProcess, topic: str) -> str:
    return next(one for one in directories(node) if one != place_of(node, topic))


def until(is_done: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def filled(
    node: NodeProcess, topic: str, count: int = 1000, *, size_bytes: int = 6, configs: dict[str, str] | None = None
) -> list[bytes]:
    values = [b"%0*d" % (size_bytes, number) for number in range(count)]
    with connect("confluent-kafka", node.bootstrap) as client:
        client.create_topic(topic, settings=configs or {})
        client.produce(topic, [Outgoing(value=value) for value in values])
    return values


def read_all(node: NodeProcess, topic: str, count: int) -> list[bytes | None]:
    with connect("confluent-kafka", node.bootstrap) as client:
        return [one.value for one in client.consume(topic, count)]


@pytest.mark.slow
def test_kafka_python_moves_a_replica_while_records_are_written(node: NodeProcess) -> None:
    values = filled(node, "python")
    target = other_place(node, "python")
    admin: Any = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    answers = admin.alter_replica_log_dirs({("python", 0, 1): target, ("unknown", 0, 1): target, ("x", 0, 1): "/none"})
    assert {key.topic: error.__name__ for key, error in answers.items()} == {
        "python": "NoError",
        "unknown": "UnknownTopicOrPartitionError",
        "x": "LogDirNotFoundError",
    }
    with connect("confluent-kafka", node.bootstrap) as client:
        while place_of(node, "python") != target:
            more = [b"%06d" % number for number in range(len(values), len(values) + 100)]
            client.produce("python", [Outgoing(value=value) for value in more])
            values += more
    admin.close()
    assert read_all(node, "python", len(values)) == values


@pytest.mark.slow
def test_a_move_of_many_segments_takes_no_long_step(node: NodeProcess) -> None:
    """40 MB in segments of 1 MiB, there and back: the copy, the flush and the swap."""
    values = filled(node, "steps", 40_000, size_bytes=1000, configs={"segment.bytes": str(1 << 20)})
    steps = StepLogReader(node.log_path)
    for _ in range(2):
        target = other_place(node, "steps")
        admin: Any = KafkaAdminClient(bootstrap_servers=node.bootstrap)
        admin.alter_replica_log_dirs({("steps", 0, 1): target})
        admin.close()
        until(partial(is_in, node, "steps", target))
    steps.check()
    assert read_all(node, "steps", len(values)) == values


def is_in(node: NodeProcess, topic: str, directory: str) -> bool:
    """Whether this data directory alone has the log of a topic, with its usual name."""
    return [one for one in directories(node) if (Path(one) / f"{topic}-0").is_dir()] == [directory]


@pytest.mark.slow
def test_a_killed_node_has_every_record_and_goes_on_with_the_move(node: NodeProcess) -> None:
    values = filled(node, "killed", 20_000)
    for delay_s in (0.0, 0.02, 0.08):
        target = other_place(node, "killed")
        admin: Any = KafkaAdminClient(bootstrap_servers=node.bootstrap)
        admin.alter_replica_log_dirs({("killed", 0, 1): target})
        admin.close()
        time.sleep(delay_s)
        node.kill()
        node.start()
        until(partial(is_only_in, node, "killed", target))
    assert read_all(node, "killed", len(values)) == values


def is_only_in(node: NodeProcess, topic: str, directory: str) -> bool:
    """Whether no other data directory has a log of the topic, or a copy."""
    named = [one for one in directories(node) for name in os.listdir(one) if is_log(name, topic)]
    return named == [directory]


def is_log(name: str, topic: str) -> bool:
    return name.startswith(f"{topic}-0") and not name.endswith("-delete")


def reassignment(folder: Path, topic: str, directory: str) -> Path:
    moved = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [directory]}
    path = folder / "moves.json"
    path.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    return path


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
def test_reassign_partitions_and_log_dirs_of_kafka(node: NodeProcess, tmp_path: Path) -> None:
    values = filled(node, "tool", 20_000, size_bytes=500)
    before, target = place_of(node, "tool"), other_place(node, "tool")
    place = ("--bootstrap-server", node.bootstrap)
    there = ("--reassignment-json-file", reassignment(tmp_path, "tool", target))
    said = tool("reassign-partitions", *place, *there, "--execute", "--replica-alter-log-dirs-throttle", "1")
    assert f"started moving log directory to {target} for replica tool-0 with broker 1" in said
    until(lambda: '"isFuture":true,"offsetLag":0' in described(node).replace(" ", "") or "isFuture" in described(node))
    said = tool("reassign-partitions", *place, *there, "--verify", "--preserve-throttles")
    assert "Reassignment of replica tool-0-1 is still in progress" in said
    back = ("--reassignment-json-file", reassignment(tmp_path, "tool", before))
    tool("reassign-partitions", *place, *back, "--execute", "--additional")
    assert "Reassignment of replica tool-0-1 completed successfully." in tool(
        "reassign-partitions", *place, *back, "--verify"
    )
    there = ("--reassignment-json-file", reassignment(tmp_path, "tool", target))
    tool("reassign-partitions", *place, *there, "--execute")
    until(lambda: place_of(node, "tool") == target)
    assert read_all(node, "tool", len(values)) == values


def described(node: NodeProcess) -> str:
    return tool("log-dirs", "--bootstrap-server", node.bootstrap, "--describe", "--topic-list", "tool")
