"""Helpers of the cluster tests: leaders, in-sync replicas, writing and reading single records.

`MINIKAFKA_TESTS_ON=kafka` runs the tests against Apache Kafka.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client import NewTopic
from minikafka.client.blocking import Admin, Consumer, Producer
from minikafka.client.connections.cluster_metadata import Partition
from minikafka.protocol.errors import KafkaError, TopicAlreadyExistsError
from minikafka.protocol.names import TopicPartition
from support.clients import eventually
from support.oracle import KAFKA, why_absent
from support.oracle_cluster import OracleCluster

ON_KAFKA = os.environ.get("MINIKAFKA_TESTS_ON") == "kafka"
PATIENCE_S = 60.0
ROUNDS = int(os.environ.get("MINIKAFKA_KILLS", "3"))
"""How many times the test of repeated kills kills the leader; 50 is a soak test."""

ENDED_BY_US = (None, 0, -signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit codes of nodes that are running, or were stopped or killed."""
COMMON = {"auto.create.topics.enable": "false", "auto.leader.rebalance.enable": "false"}


def make(directory: Path, **arguments: Any) -> LocalCluster:
    """A cluster, of Kafka nodes if requested, without automatic leader rebalancing."""
    settings = {**COMMON, **arguments.pop("settings", {})}
    if ON_KAFKA:
        assert why_absent() is None, f"{KAFKA}: {why_absent()}"
        return OracleCluster(directory, settings=settings, **arguments)
    return LocalCluster(directory, settings=settings, **arguments)


def check_nobody_crashed(cluster: LocalCluster) -> None:
    """Checks that no node has exited by itself."""
    for node_id in cluster.node_ids:
        code = cluster.exit_code(node_id)
        assert code in ENDED_BY_US, f"node {node_id} ended with {code}:\n{cluster.log_tail(node_id)}"


def heal(cluster: LocalCluster) -> None:
    """Restarts nodes and waits until all brokers and replicas are back. Fails if a node has exited by itself."""
    cluster.resume()
    check_nobody_crashed(cluster)
    dead = [node_id for node_id in cluster.node_ids if not cluster.running(node_id)]
    if dead:
        cluster.start(*dead)
    brokers = cluster.broker_ids
    eventually(lambda: all(_known(cluster, node_id) == brokers for node_id in brokers), timeout_s=PATIENCE_S)
    cluster.wait_in_sync()
    with Admin(cluster.bootstrap, **cluster.admin_options) as admin:
        admin.elect_leaders()


def _known(cluster: LocalCluster, node_id: int) -> list[int]:
    """The unfenced brokers in the metadata of one node."""
    with Admin(cluster.address(node_id), **cluster.admin_options) as admin:
        return sorted(broker.node_id for broker in admin.describe_cluster().brokers)


class Topic:
    """One topic of a cluster: its state, and records written to it.

    Args:
        replicas: brokers of each partition, the preferred leader first.

    Attributes:
        asked: the brokers that requests are sent to if they are running.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        name: str,
        replicas: Sequence[Sequence[int]] = ((1, 2, 3),),
        configs: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.asked = cluster.broker_ids
        with Admin(cluster.bootstrap, **cluster.admin_options) as admin:
            assignments = dict(enumerate(replicas))
            new = NewTopic(name, assignments=assignments, configs={"min.insync.replicas": "2", **(configs or {})})
            error = admin.create_topics([new])[name]
            assert error is None or isinstance(error, TopicAlreadyExistsError), error  # created without a response
        in_sync = [sorted(some) for some in replicas]
        self.until_told(lambda told: [sorted(one.in_sync_replicas) for one in told] == in_sync)

    def state(self, partition: int = 0) -> Partition:
        """The state in the metadata of one running broker; other brokers may be ahead or behind."""
        with Admin(self.living()) as admin:
            found: Partition = admin.describe_topic(self.name).partitions[partition]
            return found

    def leader(self, partition: int = 0) -> int:
        return self.state(partition).leader

    def in_sync(self, partition: int = 0) -> list[int]:
        return sorted(self.state(partition).in_sync_replicas)

    def until(self, look: Callable[[], bool]) -> None:
        """Waits until `look` is true; fails after a minute. Retriable errors count as false."""

        def seen() -> bool:
            try:
                return look()
            except KafkaError as error:
                if not error.retriable:
                    raise
                return False

        eventually(seen, timeout_s=PATIENCE_S)

    def until_told(self, look: Callable[[Sequence[Partition]], bool]) -> None:
        """Waits until `look` is true in the metadata of every running broker."""

        def told(address: str) -> Sequence[Partition]:
            with Admin(address) as admin:
                partitions: Sequence[Partition] = admin.describe_topic(self.name).partitions
                return partitions

        self.until(lambda: all(look(told(address)) for address in self.living().split(",")))

    def until_in_sync(self, *node_ids: int) -> None:
        self.until_told(lambda told: sorted(told[0].in_sync_replicas) == sorted(node_ids))

    def until_led_by(self, *node_ids: int) -> None:
        """Waits until one of the nodes leads; -1 stands for no leader."""
        self.until_told(lambda told: told[0].leader in node_ids)

    def write(self, value: bytes, **options: Any) -> int:
        """Writes to partition 0 with acks=all; the offset. Raises the KafkaError of the first attempt by default."""
        chosen = {"retries": 0, "enable_idempotence": False, "linger_ms": 0, **options}
        with Producer(self.living(), **chosen) as producer:
            offset: int = producer.send_and_wait(self.name, value, partition=0).offset
            return offset

    def write_surely(self, value: bytes) -> int:
        """As `write`, with retries for a minute."""
        return self.write(value, retries=1000, enable_idempotence=True, delivery_timeout_ms=int(PATIENCE_S * 1000))

    def read(self, partition: int = 0) -> list[bytes]:
        """Every value that a consumer reads."""
        place = TopicPartition(self.name, partition)
        values: list[bytes] = []
        with Consumer(bootstrap_servers=self.living(), auto_offset_reset="earliest") as consumer:
            consumer.assign([place])
            end = consumer.end_offsets([place])[place]
            eventually(lambda: self._gather(consumer, place, values) >= end, timeout_s=PATIENCE_S)
        return values

    @staticmethod
    def _gather(consumer: Consumer, place: TopicPartition, values: list[bytes]) -> int:
        values += [record.value for record in consumer.poll(200)]
        position: int = consumer.position(place)
        return position

    def living(self) -> str:
        """The addresses of the running brokers in `asked`."""
        cluster = self.cluster
        return ",".join(cluster.address(node_id) for node_id in self.asked if cluster.running(node_id))


def active_controller(cluster: LocalCluster) -> int:
    """The leader of the quorum."""
    with Admin(cluster.bootstrap, **cluster.admin_options) as admin:
        found: int = admin.describe_quorum().leader_id
        return found
