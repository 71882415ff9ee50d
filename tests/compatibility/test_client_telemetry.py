"""Clients of other projects push their metrics (KIP-714): librdkafka and Kafka's own; Kafka's tools say which."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from support.clients import eventually
from support.clients_raw import RawConnection
from support.node import NodeProcess
from support.oracle import needs_oracle, tool

from minikafka.controller.settings.effective_settings import ResourceType
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))
INTERVAL_MS = 500
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    settings = {"metrics.listener": "http://127.0.0.1:0"}
    with NodeProcess(tmp_path_factory.mktemp("telemetry") / "data", settings=settings) as running:
        yield running


def pushed(node: NodeProcess, client_id: str) -> set[str]:
    """The names of the metrics that a client has pushed."""
    [served] = [line for line in node.log_path.read_text().splitlines() if '"metrics served"' in line]
    with HTTP.open(json.loads(served)["address"], timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    lines = [line for line in text.splitlines() if f'client_id="{client_id}"' in line]
    return {re.split(r"[{ ]", line, maxsplit=1)[0] for line in lines}


def subscribe(node: NodeProcess, prefix: str) -> None:
    """Clients are to push the metrics whose names begin so."""
    texts = {"metrics": prefix, "interval.ms": str(INTERVAL_MS)}
    configs = [AlterableConfig(name=name, value=value) for name, value in texts.items()]
    resource = AlterConfigsResource(resource_type=ResourceType.CLIENT_METRICS, resource_name="all", configs=configs)
    with RawConnection(node.address) as connection:
        [altered] = connection.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert not altered.error_code


def test_librdkafka_pushes_what_it_is_asked_for(node: NodeProcess) -> None:
    subscribe(node, "org.apache.kafka.producer.")
    said: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": node.bootstrap,
            "client.id": "of-librdkafka",
            "enable.metrics.push": True,
            "error_cb": lambda error: said.append(str(error)),
        }
    )

    def is_pushed() -> bool:
        producer.produce("telemetry", b"value")
        producer.poll(0.1)
        return "org_apache_kafka_producer_record_queue_time_avg" in pushed(node, "of-librdkafka")

    eventually(is_pushed, timeout_s=PATIENCE_S)
    assert producer.flush(PATIENCE_S) == 0
    assert said == []
    assert all(name.startswith("org_apache_kafka_producer_") for name in pushed(node, "of-librdkafka"))


@needs_oracle
@pytest.mark.oracle
def test_kafka_tools_say_what_kafka_clients_push(node: NodeProcess) -> None:
    servers = ("--bootstrap-server", node.bootstrap)
    tool("client-metrics", *servers, "--alter", "--name", "all", "--metrics", "*", "--interval", INTERVAL_MS)
    assert "interval.ms=500" in tool("client-metrics", *servers, "--describe", "--name", "all")
    assert "metrics=*" in tool("configs", *servers, "--entity-type", "client-metrics", "--describe")
    tool("topics", *servers, "--create", "--topic", "of-java")
    perf = ("--topic", "of-java", "--num-records", 300, "--record-size", 100, "--throughput", 100)
    properties = (f"bootstrap.servers={node.bootstrap}", "client.id=of-java", "compression.type=lz4")
    output = tool("producer-perf-test", *perf, "--producer-props", *properties)
    assert "300 records sent" in output
    names = pushed(node, "of-java")
    assert "org_apache_kafka_producer_record_send_total" in names or len(names) > 50, names
