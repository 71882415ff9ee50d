"""Three nodes that show each other certificates: clients, replication and controllers, all by TLS."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support.controller_process import free_port
from support.node import NodeProcess, started_together
from support.oracle import needs_oracle, run_tool
from support.tls import certificate_of, client_of, write_stores

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
NODES = (1, 2, 3)
API_VERSIONS = b"\0\0\0\x0e\0\x12\0\0\0\0\0\7\0\4test"


class Cluster:
    """Three nodes, and what their clients need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {node: free_port() for node in NODES}
        self.controllers = {node: free_port() for node in NODES}
        self.nodes = {node: self._node(node) for node in NODES}
        carol = certificate_of("CN=carol")
        (folder / "carol.key").write_text(carol.key_pem())
        (folder / "carol.crt").write_text(carol.chain_pem)
        carol.write_pkcs12(folder / "carol.p12")
        self.client = {
            "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in self.ports.values()),
            "security.protocol": "SSL",
            "ssl.ca.location": str(folder / "authority.pem"),
            "ssl.certificate.location": str(folder / "carol.crt"),
            "ssl.key.location": str(folder / "carol.key"),
        }

    def _node(self, node: int) -> NodeProcess:
        voters = ",".join(f"{one}@127.0.0.1:{port}" for one, port in self.controllers.items())
        settings = {
            "node.id": node,
            "process.roles": "broker,controller",
            "listeners": f"SSL://127.0.0.1:{self.ports[node]},CONTROLLER://127.0.0.1:{self.controllers[node]}",
            "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "security.inter.broker.protocol": "SSL",
            "ssl.client.auth": "required",
            **write_stores(self.folder, f"CN=node{node}"),
        }
        return NodeProcess(self.folder / f"node-{node}", settings=settings, port=self.ports[node])

    def log(self, node: int) -> str:
        return self.nodes[node].log_path.read_text()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    with started_together(cluster.nodes.values()):
        yield cluster


def test_records_are_replicated(cluster: Cluster) -> None:
    admin = AdminClient(cluster.client)
    new = NewTopic("replicated", num_partitions=3, replication_factor=3, config={"min.insync.replicas": "3"})
    admin.create_topics([new])["replicated"].result(60)
    producer = Producer(cluster.client | {"acks": "all"})
    for number in range(300):
        producer.produce("replicated", b"x" * 1000, partition=number % 3)
    assert producer.flush(60) == 0
    consumer = Consumer(cluster.client | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["replicated"])
    assert len(consumer.consume(300, 60)) == 300
    consumer.close()


@pytest.mark.parametrize(("node", "with_tls"), [(2, True), (3, False)])
def test_a_stranger_at_the_controllers_is_refused_and_named(cluster: Cluster, node: int, with_tls: bool) -> None:
    with socket.create_connection(("127.0.0.1", cluster.controllers[node]), 30) as raw:
        stranger = client_of().wrap_socket(raw, server_hostname="localhost") if with_tls else raw
        answer = b""
        with stranger, suppress(ConnectionError, ssl.SSLError):
            stranger.sendall(API_VERSIONS)
            answer = stranger.recv(100)
    assert answer == b""
    expected = "TLS: peer did not return a certificate" if with_tls else "TLS: the other end speaks none"
    assert expected in wait_for(cluster, node, expected)


def wait_for(cluster: Cluster, node: int, text: str) -> str:
    """The log of a node, once it has a text: the node may still write it."""
    end = time.monotonic() + 30
    while text not in cluster.log(node) and time.monotonic() < end:
        time.sleep(0.01)
    return cluster.log(node)


def test_a_leader_that_ends_is_followed_by_another(cluster: Cluster) -> None:
    cluster.nodes[1].kill()  # the end of a leader of partitions, or of the quorum
    producer = Producer(cluster.client | {"acks": "all"})
    admin = AdminClient(cluster.client)
    new = NewTopic("of-two", num_partitions=1, replication_factor=2)
    admin.create_topics([new])["of-two"].result(60)
    producer.produce("of-two", b"x")
    assert producer.flush(60) == 0
    cluster.nodes[1].start()


@pytest.mark.oracle
@needs_oracle
def test_kafkas_tool_asks_a_controller(cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={cluster.folder}/authority.pem\n"
        f"ssl.keystore.location={cluster.folder}/carol.p12\nssl.keystore.password=store-secret\n"
    )
    place = ("--bootstrap-controller", f"127.0.0.1:{cluster.controllers[2]}", "--command-config", config)
    done = run_tool("metadata-quorum", *place, "describe", "--status")
    assert done.returncode == 0, done.stderr
    assert "LeaderId" in done.stdout
