"""Settings that were changed while a node ran are in force again after a crash, from the first request on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from support.node import NodeProcess

from minikafka.client.blocking import Admin, Producer
from minikafka.protocol.errors import MessageTooLargeError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
SET = {
    "compression.type": "gzip",
    "group.consumer.assignment.interval.ms": "1234",
    "leader.replication.throttled.rate": "1000000",
    "log.cleaner.backoff.ms": "1234",
    "log.message.timestamp.type": "LogAppendTime",
    "log.segment.bytes": "1048576",
    "max.connection.creation.rate": "1234",
    "max.connections.per.ip": "5",
    "message.max.bytes": "3000",
    "producer.id.expiration.ms": "1234567",
    "transaction.partition.verification.enable": "false",
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data") as started:
        yield started


def test_settings_of_a_broker_are_in_force_after_a_crash(node: NodeProcess) -> None:
    with Admin(node.bootstrap) as admin:
        admin.create_topic("t", partitions=1)
        admin.alter_configs("broker", "1", set=SET)
        before = {name: admin.describe_configs("broker", "1")[name].value for name in SET}
    assert before == SET
    behaves(node)
    node.kill()
    node.start()
    behaves(node)
    with Admin(node.bootstrap) as admin:
        found = admin.describe_configs("broker", "1")
        assert {name: found[name].value for name in SET} == SET


def behaves(node: NodeProcess) -> None:
    """Check that the node does what its settings say."""
    assert 0 < connections(node) <= 5
    with Producer(node.bootstrap) as producer:
        with pytest.raises(MessageTooLargeError):
            producer.send_and_wait("t", b"x" * 4000)
        assert producer.send_and_wait("t", b"x", timestamp_ms=1).timestamp > 1, "the time of appending"


def connections(node: NodeProcess) -> int:
    """How many connections of one address the node keeps."""
    with ExitStack() as stack:
        host, port = node.bootstrap.split(":")
        kept = 0
        for _ in range(8):
            raw = stack.enter_context(socket.create_connection((host, int(port)), 30))
            raw.sendall(b"\0\0\0\x0e\0\x12\0\0\0\0\0\7\0\4test")
            with suppress(ConnectionError):
                kept += bool(raw.recv(1))
        return kept
