"""Three nodes of the oldest version that is supported become nodes of today's version, one after the other, under load.

`MINIKAFKA_UPGRADE_FROM=commit` starts with another version: docs/operations/upgrade.md says which can be upgraded so.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clients import eventually
from support.cluster_load import Ledger, load, read_back, wrongs
from support.clusters import ON_KAFKA, PATIENCE_S, Topic, active_controller, check_nobody_crashed
from support.old_version import MixedCluster, old_version

from minikafka import TopicPartition
from minikafka.client.blocking import Admin, Consumer, Producer
from minikafka.controller.metadata.features import FEATURES, KRAFT_VERSION

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(ON_KAFKA, reason="of our own versions"),
]
GOES_ON = 60
"""The number of further acknowledgements that shows that producers go on."""

SETTINGS = {"broker.session.timeout.ms": "5000", "auto.leader.rebalance.enable": "false"}
PLACE = TopicPartition("committed", 0)


@pytest.fixture
def cluster(tmp_path: Path) -> MixedCluster:
    return MixedCluster(tmp_path / "three", old_version(tmp_path / "old"), brokers=3, settings=SETTINGS)


def restart(cluster: MixedCluster, ledger: Ledger, node_id: int) -> None:
    """One step of an upgrade: the node is back, everything is in sync, and producers go on."""
    cluster.stop(node_id, timeout_s=PATIENCE_S)
    cluster.start(node_id, timeout_s=PATIENCE_S)
    cluster.wait_in_sync()
    ledger.wait_acknowledged(GOES_ON)
    check_nobody_crashed(cluster)


def restart_upgraded(cluster: MixedCluster, ledger: Ledger, node_id: int) -> None:
    cluster.upgrade(node_id)
    restart(cluster, ledger, node_id)


def change_metadata(cluster: MixedCluster, topic: str) -> None:
    """Records of several kinds in the metadata log, written by whichever node is the active controller."""
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(topic, partitions=3, replication_factor=3)
        admin.alter_configs("topic", topic, set={"retention.ms": "3600000"})
        admin.create_partitions(topic, 4)
    cluster.wait_in_sync()
    check_nobody_crashed(cluster)


def write_in_a_transaction(cluster: MixedCluster, values: list[bytes]) -> None:
    """As one transactional id, which all versions of the coordinator know."""
    with Producer(cluster.bootstrap, transactional_id="upgraded") as producer, producer.transaction():
        for value in values:
            producer.send(PLACE.topic, value, partition=PLACE.partition)


def read_on(cluster: MixedCluster, count: int, **options: str) -> list[bytes]:
    """The next records of the group, whose offsets are committed."""
    values: list[bytes] = []
    with Consumer(
        PLACE.topic,
        bootstrap_servers=cluster.bootstrap,
        group_id="readers",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        **options,
    ) as consumer:
        eventually(lambda: len(values) >= count or values.extend(_values(consumer)), timeout_s=PATIENCE_S)
    return values


def _values(consumer: Consumer) -> list[bytes]:
    return [record.value for record in consumer.poll(timeout_ms=200)]


def levels(admin: Admin) -> dict[str, int]:
    return {feature.name: feature.level for feature in admin.describe_features().features}


def finalise(cluster: MixedCluster) -> None:
    """What ends an upgrade: the features of the new version."""
    wanted = {name: newest for name, (_, newest, _) in FEATURES.items()} | {KRAFT_VERSION: 1}
    with Admin(cluster.bootstrap) as admin:
        known = levels(admin)
        assert known != wanted, "an older version has levels that can be raised"
        admin.update_features({name: level for name, level in wanted.items() if known[name] != level})
        eventually(lambda: levels(admin) == wanted, timeout_s=PATIENCE_S)


def test_nodes_are_upgraded_one_after_the_other_under_load(cluster: MixedCluster) -> None:
    """The active controller is last, and once more starts with the old code: it then follows a controller of today."""
    cluster.start(timeout_s=PATIENCE_S)
    topic = Topic(cluster, "loaded", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    Topic(cluster, PLACE.topic, [[1, 2, 3]])
    write_in_a_transaction(cluster, [b"old 1", b"old 2"])
    assert read_on(cluster, 2) == [b"old 1", b"old 2"]
    last = active_controller(cluster)
    with load("confluent-kafka", cluster.bootstrap, topic.name) as ledger:
        for node_id in sorted(set(cluster.node_ids) - {last}):
            restart_upgraded(cluster, ledger, node_id)
        change_metadata(cluster, "created-by-old")
        restart(cluster, ledger, last)
        assert active_controller(cluster) != last
        change_metadata(cluster, "created-by-new")
        restart_upgraded(cluster, ledger, last)
        finalise(cluster)
        ledger.wait_acknowledged(GOES_ON)
    write_in_a_transaction(cluster, [b"new 1"])
    assert read_on(cluster, 1, group_protocol="consumer") == [b"new 1"]
    assert wrongs(ledger, read_back(cluster.bootstrap, topic.name)) == []
    cluster.stop(timeout_s=PATIENCE_S)
