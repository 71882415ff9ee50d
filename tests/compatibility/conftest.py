"""Every test runs against minikafka and, marked `oracle`, against Apache Kafka, with the same expectations."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support.clients import CLIENTS, Client, connect
from support.node import NodeProcess, ServerProcess
from support.oracle import KAFKA_ITSELF, Oracle, needs_oracle

NODES = ["minikafka", pytest.param("kafka", marks=[*KAFKA_ITSELF, needs_oracle])]


@pytest.fixture(scope="session", params=NODES)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running node with default settings, shared by the tests; each test uses its own topics."""
    data_dir = tmp_path_factory.mktemp("node") / "data"
    with Oracle(data_dir) if request.param == "kafka" else NodeProcess(data_dir) as running:
        yield running


@pytest.fixture(scope="session", params=CLIENTS)
def client(request: pytest.FixtureRequest, node: ServerProcess) -> Iterator[Client]:
    with connect(request.param, node.bootstrap) as connected:
        yield connected


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A unique, valid name for a topic or a group."""
    return re.sub(r"[^a-zA-Z0-9-]+", "-", request.node.name)[-200:]


@pytest.fixture
def topic(client: Client, name: str) -> str:
    """A topic with one partition."""
    client.create_topic(name)
    return name
