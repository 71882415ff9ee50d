"""Kafka's kafka-reassign-partitions moves a replica under a replication throttle (KIP-73)."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster.test_kafka_tools import ask, plan_of
from support.clusters import ON_KAFKA, Topic
from support.oracle import needs_oracle

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin, Producer

pytestmark = [pytest.mark.oracle, needs_oracle, pytest.mark.slow, pytest.mark.timeout(600 if ON_KAFKA else 180)]
RECORDS, SIZE_BYTES = 20_000, 1000


def size_on(cluster: LocalCluster, node_id: int, topic: str) -> int:
    """The size in bytes of a topic's replicas on a node."""
    with Admin(cluster.address(node_id)) as admin:
        [directory] = admin.describe_log_dirs([node_id])[node_id]
        return sum(one.size_bytes for place, one in directory.replicas.items() if place.topic == topic)


def throttles(cluster: LocalCluster) -> str:
    """The output of kafka-configs for the cluster-wide dynamic configs and every broker."""
    return "".join(
        ask(cluster, "configs", "--describe", "--entity-type", "brokers", "--entity-name", node_id)
        for node_id in cluster.broker_ids
    )


def test_a_throttled_move_waits_until_the_throttle_is_raised(three: LocalCluster, name: str, tmp_path: Path) -> None:
    topic = Topic(three, name, [[1, 2]], {"min.insync.replicas": "1"})
    with Producer(three.bootstrap) as producer:
        for _ in range(RECORDS):
            producer.send(name, bytes(SIZE_BYTES))
    plan = tmp_path / "plan.json"
    plan.write_text(plan_of(name, [1, 3]))
    execute = ("reassign-partitions", "--execute", "--reassignment-json-file", plan)
    said = ask(three, *execute, "--throttle", 10_000)
    assert "The inter-broker throttle limit was set to 10000 B/s" in said
    topic.until(lambda: size_on(three, 3, name) > 0)
    assert throttles(three).count(".throttled.rate=10000 sensitive=false") == 2 * 3
    assert f"{name}-0: replicas: 1,3,2. adding: 3. removing: 2." in ask(three, "reassign-partitions", "--list")
    assert size_on(three, 3, name) < RECORDS * SIZE_BYTES // 2  # 1 MiB, then a pause of eleven seconds
    ask(three, *execute, "--additional", "--throttle", 1_000_000_000)
    topic.until(lambda: topic.state().replicas == (1, 3))
    verified = ask(three, "reassign-partitions", "--verify", "--reassignment-json-file", plan)
    assert "Clearing broker-level throttles on brokers 1,2,3" in verified
    assert "throttled" not in throttles(three)
    assert size_on(three, 3, name) == size_on(three, 1, name)
