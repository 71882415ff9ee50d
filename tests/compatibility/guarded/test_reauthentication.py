"""Clients go on for longer than their session lasts (`connections.max.reauth.ms`, KIP-368): nothing is lost, and who
logs in again in time keeps its connections."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.clients import CLIENTS, closing, connect, read
from support.guarded_nodes import SESSION_MS, GuardedNode
from support.oracle import KAFKA_ITSELF, needs_oracle, run_tool

from minikafka.client.blocking import Producer
from minikafka.client.connections.seams import Seams

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
WAY = "SCRAM-SHA-256"
LASTS_S = 2.1 * SESSION_MS / 1000
PAUSE_S = 0.2
COUNT = int(LASTS_S / PAUSE_S)
NOT_RENEWING = ("aiokafka",)
"""Clients that are disconnected at the end of a session, and connect again."""
RENEWING = tuple(name for name in CLIENTS if name not in NOT_RENEWING)
OVER = "the session is over"
CONNECTIONS_MAX = 9
"""Of a producer, a member and its admin: seven; each of four would be made twice more if sessions were not renewed."""


class Connections:
    """Counts the connections of our client: `seams` are its seams."""

    def __init__(self) -> None:
        self.count = 0
        usual = Seams()

        async def open_stream(*arguments: Any) -> Any:
            self.count += 1
            return await usual.open_stream(*arguments)

        self.seams = replace(usual, open_stream=open_stream)


@contextmanager
def written(node: GuardedNode, topic: str, seams: Seams) -> Iterator[None]:
    """A thread in which our producer writes a number in each of `PAUSE_S`, in a transaction every second."""

    def write() -> None:
        options = node.options_of("minikafka", WAY)
        with Producer(node.address("BRIEF"), **options, transactional_id=topic, seams=seams) as producer:
            for first in range(0, COUNT, 5):
                with producer.transaction():
                    for number in range(first, min(first + 5, COUNT)):
                        producer.send(topic, b"%d" % number, partition=0).result(30_000)
                        time.sleep(PAUSE_S)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        yield
        writing.result(60)


@pytest.mark.parametrize(
    ("node_kind", "clients"),
    [
        ("minikafka", RENEWING),
        pytest.param("kafka", ("minikafka",), marks=[pytest.mark.oracle, needs_oracle]),
        pytest.param("kafka", RENEWING, marks=[*KAFKA_ITSELF, needs_oracle]),
    ],
)
def test_who_logs_in_again_in_time_keeps_his_connections(
    guarded: GuardedNode, node_kind: str, clients: tuple[str, ...], own_name: str
) -> None:
    """Members of groups read while our producer writes in transactions, for more than two sessions."""
    connections = Connections()
    closed = closings(guarded)
    begun_s = time.monotonic()
    members_read(guarded, clients, own_name, connections)
    assert time.monotonic() - begun_s > LASTS_S
    assert connections.count <= CONNECTIONS_MAX, "our client has connected again"
    if node_kind == "minikafka":
        assert closings(guarded) == closed


@pytest.mark.parametrize("node_kind", ["minikafka", pytest.param("kafka", marks=[*KAFKA_ITSELF, needs_oracle])])
def test_who_does_not_is_disconnected_and_loses_nothing(guarded: GuardedNode, node_kind: str, own_name: str) -> None:
    closed = closings(guarded)
    members_read(guarded, NOT_RENEWING, own_name, Connections())
    if node_kind == "minikafka":
        assert closings(guarded) > closed


@pytest.mark.oracle
@needs_oracle
@pytest.mark.parametrize("node_kind", ["minikafka", pytest.param("kafka", marks=KAFKA_ITSELF)])
def test_javas_producer_and_consumer(guarded: GuardedNode, node_kind: str, own_name: str, tmp_path: Path) -> None:
    create(guarded, own_name)
    closed = closings(guarded)
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in guarded.properties(WAY).items()))
    place = ("--bootstrap-server", guarded.address("BRIEF"), "--command-config", file, "--topic", own_name)
    paced = ("--num-records", COUNT, "--record-size", 10, "--throughput", int(1 / PAUSE_S), "--reporting-interval", 500)
    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(run_tool, "producer-perf-test", *place, *paced)
        reading = pool.submit(
            run_tool, "console-consumer", *place, "--group", own_name, "--from-beginning", "--max-messages", COUNT,
            "--timeout-ms", 60_000,
        )  # fmt: skip
        assert writing.result().returncode == 0, writing.result()
        assert len(reading.result().stdout.split()) == COUNT, reading.result()
    if node_kind == "minikafka":
        assert closings(guarded) == closed


def create(node: GuardedNode, topic: str) -> None:
    with node.admin() as admin:
        admin.create_topic(topic, partitions=1, replication_factor=1)


def closings(node: GuardedNode) -> int:
    """How often a node of ours has closed a connection at the end of its session."""
    return node.log().count(OVER)


def members_read(node: GuardedNode, clients: Sequence[str], topic: str, connections: Connections) -> None:
    """A member of each client reads all that our producer writes meanwhile."""
    create(node, topic)
    with written(node, topic, connections.seams), ThreadPoolExecutor(len(clients)) as pool:
        reading = {name: pool.submit(received, node, name, topic, connections) for name in clients}
        for name, values in reading.items():
            assert values.result(90) == [b"%d" % number for number in range(COUNT)], name


def received(node: GuardedNode, name: str, topic: str, connections: Connections) -> list[bytes | None]:
    options = node.options_of(name, WAY) | ({"seams": connections.seams} if name == "minikafka" else {})
    with (
        connect(name, node.address("BRIEF"), **options) as client,
        closing(client.member(f"{topic}-{name}", [topic])) as member,
    ):
        values = [record.value for record in read(member, COUNT)]
        member.commit()
    return values
