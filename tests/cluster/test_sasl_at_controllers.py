"""Three nodes whose controller listener asks for a login by SASL: of nodes, of Kafka's tools and of ours."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.controller_process import free_port
from support.node import NodeProcess, StartError, started_together
from support.oracle import needs_oracle, run_tool

from minikafka.client.blocking import Admin, Consumer, Producer
from minikafka.protocol.errors import KafkaError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
NODES = (1, 2, 3)
JAAS = "listener.name.controller.plain.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = 'user_node="among-us" user_admin="admin-secret" user_alice="alice-secret"'
WRONG = "not-it-4711"


class Cluster:
    """Three nodes with both roles, and the addresses of their controllers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {node: free_port() for node in NODES}
        self.controllers = {node: free_port() for node in NODES}
        self.nodes = {node: self._combined(node) for node in NODES}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def settings(self, node: int, password: str = "among-us", protocol: str = "SASL_PLAINTEXT") -> dict[str, object]:
        voters = ",".join(f"{one}@127.0.0.1:{port}" for one, port in self.controllers.items())
        return {
            "node.id": node,
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:{protocol}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.connections.max.reauth.ms": "2000",
            JAAS: f'{MODULE} username="node" password="{password}" {USERS};',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:node;User:admin;User:ANONYMOUS",
        }

    def _combined(self, node: int) -> NodeProcess:
        settings = {
            **self.settings(node),
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[node]},CONTROLLER://127.0.0.1:{self.controllers[node]}",
        }
        return NodeProcess(self.folder / f"node-{node}", settings=settings, port=self.ports[node])

    def broker(self, node: int, password: str, protocol: str = "SASL_PLAINTEXT") -> NodeProcess:
        port = free_port()
        settings = {
            **self.settings(node, password, protocol),
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        }
        return NodeProcess(self.folder / f"node-{node}", settings=settings, port=port)

    def log(self, *nodes: int) -> str:
        return "".join(self.nodes[node].log_path.read_text() for node in nodes or NODES)

    def client(self, user: str, password: str) -> Path:
        path = self.folder / f"{user}.properties"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={MODULE} username="{user}" password="{password}";\n'
        )
        return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    with started_together(cluster.nodes.values()):
        yield cluster


def test_nodes_log_in_and_renew_their_sessions(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("t", partitions=3, replication_factor=3, configs={"min.insync.replicas": "3"})
        epoch = admin.describe_quorum().leader_epoch
    end, sent = time.monotonic() + 6, 0
    with Producer(cluster.bootstrap) as producer:
        while time.monotonic() < end:
            producer.send("t", str(sent).encode(), partition=sent % 3).result(30_000)
            sent += 1
    with Consumer("t", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        values = set[int]()
        while len(values) < sent and time.monotonic() < end + 60:
            values |= {int(record.value or b"") for record in consumer.poll(1)}
    assert values == set(range(sent))
    with Admin(cluster.bootstrap) as admin:
        assert admin.describe_quorum().leader_epoch == epoch, "renewed sessions disturb no leader"
    assert "not renewed" not in cluster.log()
    assert "peer disconnected" not in cluster.log()
    assert "among-us" not in cluster.log()


@contextmanager
def turned_away(stranger: NodeProcess, text: str) -> Iterator[float]:
    """A broker that starts and does not get ready. Yields the seconds from its first line to the one with `text`."""

    def start() -> None:
        with pytest.raises(StartError):
            stranger.start()

    with ThreadPoolExecutor() as threads:
        started = threads.submit(start)
        try:
            assert until(stranger, "starting")
            began = time.monotonic()
            assert until(stranger, text), stranger.log_tail()
            yield time.monotonic() - began
        finally:
            with suppress(ProcessLookupError):
                os.kill(stranger.pid, signal.SIGKILL)  # `start` reads what it says up to its end.
            started.result(60)
            stranger.kill()


def until(node: NodeProcess, text: str) -> bool:
    """Wait until the log of a node has a text; False if it does not within a minute."""
    end = time.monotonic() + 60
    while text not in node.log_tail(1000) and time.monotonic() < end:
        time.sleep(0.05)
    return text in node.log_tail(1000)


def test_a_broker_with_a_wrong_password_is_named_at_both_ends_and_tries_at_a_bounded_rate(cluster: Cluster) -> None:
    stranger = cluster.broker(4, WRONG)
    with turned_away(stranger, "waiting for the controller quorum") as seconds:
        log, failures = stranger.log_tail(1000), cluster.log().count('"authentication failed"')
    assert "refused PLAIN for user 'node': Authentication failed: Invalid username or password" in log
    assert 1 <= failures <= (seconds + 2) * len(NODES)
    assert WRONG not in log + cluster.log()


def test_a_broker_that_does_not_log_in_is_refused_and_told(cluster: Cluster) -> None:
    with turned_away(cluster.broker(5, "among-us", "PLAINTEXT"), "this listener expects a login by SASL"):
        pass
    assert "a node sends no login, and the listener expects one by SASL" in cluster.log()


def test_our_client_logs_in_and_learns_that_it_has_reached_a_controller(cluster: Cluster) -> None:
    address = f"127.0.0.1:{cluster.controllers[1]}"
    options: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    options["sasl_username"] = "alice"
    for password, error in (("alice-secret", "is a controller's address"), (WRONG, "Invalid username or password")):
        with pytest.raises(KafkaError, match=error), Admin(address, sasl_password=password, **options) as admin:
            admin.describe_quorum()


@pytest.mark.oracle
@needs_oracle
def test_kafkas_tools_ask_a_controller(cluster: Cluster) -> None:
    def asked(user: str, password: str) -> tuple[int, str]:
        place = ("--bootstrap-controller", f"127.0.0.1:{cluster.controllers[2]}")
        given = (*place, "--command-config", cluster.client(user, password))
        done = run_tool("metadata-quorum", *given, "describe", "--status")
        return done.returncode, done.stdout + done.stderr

    code, text = asked("admin", "admin-secret")
    assert (code, "LeaderId" in text) == (0, True), text
    code, text = asked("alice", "alice-secret")
    assert (code, "ClusterAuthorizationException" in text) == (1, True), text
    code, text = asked("admin", WRONG)
    assert (code, "Invalid username or password" in text) == (1, True), text
