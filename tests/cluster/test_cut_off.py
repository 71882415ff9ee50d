"""A leader that is partitioned from the other nodes, but not from its clients, cannot acknowledge.

The brokers replicate over a separate listener. Node 1 advertises the port of a `support.cuts.Cable` for it, and reaches
the controller through another one.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from support.clusters import ON_KAFKA, Topic, make
from support.conversation_player import Connection
from support.cuts import Cable

from minikafka.cli.clusters.cluster_layout import HOST, with_settings
from minikafka.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 if ON_KAFKA else 300)]
CUT_OFF, CONTROLLER = 1, 4
BETWEEN_BROKERS = 200
"""Distance from the client port to the port of the inter-broker listener."""
VERSION = 11
NOT_LEADER, TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND = 6, 7, 20


class Wired:
    """Three brokers and a controller, and the cables of node 1."""

    def __init__(self, cluster: LocalCluster, stack: ExitStack) -> None:
        self.cluster = cluster
        near, far = cluster.nodes[CUT_OFF].port + BETWEEN_BROKERS, cluster.nodes[CONTROLLER].controller_port
        self.from_brokers = stack.enter_context(Cable((HOST, near)))
        self.to_controller = stack.enter_context(Cable((HOST, far)))
        for node_id in cluster.broker_ids:
            self._rewire(node_id)

    def _rewire(self, node_id: int) -> None:
        clients = self.cluster.nodes[node_id].port
        advertised = self.from_brokers.port if node_id == CUT_OFF else clients + BETWEEN_BROKERS
        settings = {
            "listeners": f"PLAINTEXT://{HOST}:{clients},BROKERS://{HOST}:{clients + BETWEEN_BROKERS}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{clients},BROKERS://{HOST}:{advertised}",
            "inter.broker.listener.name": "BROKERS",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
        if node_id == CUT_OFF:
            settings["controller.quorum.voters"] = f"{CONTROLLER}@{self.to_controller.address}"
        path = self.cluster.config(node_id)
        path.write_text(with_settings(path.read_text(), settings))

    def cut(self) -> None:
        self.from_brokers.cut()
        self.to_controller.cut()

    def mend(self) -> None:
        self.from_brokers.mend()
        self.to_controller.mend()


def ports_are_free(cluster: LocalCluster) -> bool:
    """Whether the ports of the inter-broker listener are free; the cluster has not reserved them."""
    with suppress(OSError), ExitStack() as held:
        for node_id in cluster.broker_ids:
            held.enter_context(socket.socket()).bind((HOST, cluster.nodes[node_id].port + BETWEEN_BROKERS))
        return True
    return False


@pytest.fixture
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wired]:
    folders = (tmp_path_factory.mktemp("cut") for _ in itertools.count())
    cluster = next(filter(ports_are_free, (make(one, brokers=3, controllers=1, isolated=True) for one in folders)))
    with ExitStack() as stack:
        wired = Wired(cluster, stack)
        stack.enter_context(cluster)
        yield wired


def test_a_leader_cut_off_from_the_others_cannot_acknowledge(wired: Wired, name: str) -> None:
    topic = Topic(wired.cluster, name, [[1, 2, 3]])
    assert topic.write_surely(b"all have it") == 0
    client = Connection((HOST, wired.cluster.nodes[CUT_OFF].port))
    wired.cut()
    records = {"name": name, "partition_data": [{"index": 0, "records": ["only 1 has it"]}]}
    client.send("Produce", VERSION, {"acks": -1, "timeout_ms": 3000, "topic_data": [records]})
    topic.asked = [2, 3]
    topic.until_led_by(2, 3)
    assert topic.write_surely(b"the others have it") == 1
    received = client.receive(60)
    assert not isinstance(received, str), received
    [result] = received[1].responses[0].partition_responses
    assert result.error_code in (NOT_LEADER, TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    wired.mend()
    topic.until_in_sync(1, 2, 3)
    topic.asked = wired.cluster.broker_ids
    assert topic.read() == [b"all have it", b"the others have it"]
    client.close()
