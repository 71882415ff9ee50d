"""Three brokers whose only listener for clients and each other asks for a login by SASL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin, Consumer, Producer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "connections.max.reauth.ms": "4000",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{MODULE} username="broker" password="among-us" user_broker="among-us" user_alice="secret";'
    ),
}
LOGIN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": "secret",
}


def test_brokers_log_in_to_replicate_and_for_transactions(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "cluster", brokers=3, settings=SETTINGS) as cluster:
        servers = cluster.bootstrap_servers
        with Admin(bootstrap_servers=servers, **LOGIN) as admin:
            admin.create_topic("t", partitions=6, replication_factor=3, configs={"min.insync.replicas": "3"})
        with Producer(bootstrap_servers=servers, transactional_id="x", **LOGIN) as producer:
            for number in range(12):
                with producer.transaction():
                    producer.send("t", str(number).encode(), partition=number % 6)
        with Consumer("t", bootstrap_servers=servers, auto_offset_reset="earliest", **LOGIN) as consumer:
            values: list[int] = []
            for _ in range(100):
                values += [int(record.value or b"") for record in consumer.poll(1)]
                if len(values) >= 12:
                    break
        assert sorted(values) == list(range(12))
        for node_id in cluster.node_ids:
            assert "among-us" not in cluster.log_tail(node_id, 100_000)
