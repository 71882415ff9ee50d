"""A node whose process may open few files: clients beyond what it has descriptors for are refused, and nothing else."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.clients_raw import RawConnection, check_served
from support.node import NodeProcess

DESCRIPTORS = 1024
IDLE = 1000
TOPICS, PARTITIONS = 5, 60

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit, which limits the node, is not installed"),
]


class LimitedNode(NodeProcess):
    """A node whose process can open `DESCRIPTORS` files; its hard limit is no higher."""

    def command(self) -> list[str]:
        return ["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}", *super().command()]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with LimitedNode(tmp_path / "data") as running:
        yield running


@pytest.mark.slow
def test_a_thousand_idle_connections_cost_neither_a_directory_nor_a_client(node: NodeProcess) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    create(admin, "before", partitions=1)
    producer = confluent_kafka.Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
    produce(producer, "before", 1)
    with contextlib.ExitStack() as idle:
        connections = [idle.enter_context(RawConnection(node.address)) for _ in range(IDLE)]
        admin.list_topics(timeout=30)  # After this the node has seen all of them.
        refused = [one for one in connections if is_refused(one)]
        assert 100 < len(refused) < IDLE - 500, f"{len(refused)} of {IDLE} connections were refused"
        for number in range(TOPICS):
            create(admin, f"beside-{number}", partitions=PARTITIONS)
            produce(producer, f"beside-{number}", PARTITIONS)
        produce(producer, "before", 1)
    check_served(node)
    assert "log directory" not in node.log_tail(10_000)
    assert node.log_tail(10_000).count("too many connections") < 10, "it is not logged for each"
    assert node.terminate() == 0
    node.start()
    for topic, count in [("before", 2), *((f"beside-{number}", PARTITIONS) for number in range(TOPICS))]:
        assert records_in(node, topic) == count
    assert "log directory" not in node.log_tail(10_000)


def is_refused(connection: RawConnection) -> bool:
    connection.socket.settimeout(0.001)
    try:
        return connection.socket.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def create(admin: AdminClient, topic: str, *, partitions: int) -> None:
    admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])[topic].result(30)


def produce(producer: confluent_kafka.Producer, topic: str, partitions: int) -> None:
    """Produces one record to each partition."""
    failures: list[object] = []
    for partition in range(partitions):
        producer.produce(
            topic, b"value", partition=partition, on_delivery=lambda error, _: error and failures.append(error)
        )
    assert producer.flush(30) == 0
    assert failures == []


def records_in(node: NodeProcess, topic: str) -> int:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "counting", "log_level": 0}
    )
    try:
        known = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        partitions = [confluent_kafka.TopicPartition(topic, one) for one in known]
        ranges = [consumer.get_watermark_offsets(one, timeout=30) for one in partitions]
    finally:
        consumer.close()
    return sum(high - low for low, high in ranges)
