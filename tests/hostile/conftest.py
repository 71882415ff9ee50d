"""Attacks on a node process: minikafka, and Apache Kafka, marked `oracle`, for comparison."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.clients_raw import check_served, growth_bytes, resident_bytes
from support.node import NodeProcess, ServerProcess
from support.oracle import KAFKA_ITSELF, Oracle, needs_oracle
from support.steps import StepLogReader, stacks_of_long_steps

MIB = 1 << 20
SETTINGS = {"auto.create.topics.enable": "false"}
NODES = ["minikafka", pytest.param("kafka", marks=[*KAFKA_ITSELF, needs_oracle])]


@pytest.fixture(scope="session", params=NODES)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running node without automatic topic creation, shared by all attacks."""
    kind = Oracle if request.param == "kafka" else NodeProcess
    settings = SETTINGS if kind is Oracle else {**SETTINGS, "metrics.listener": "http://127.0.0.1:0"}
    with stacks_of_long_steps(), kind(tmp_path_factory.mktemp("node") / "data", settings=settings) as running:
        yield running


@pytest.fixture
def growth_bytes_max(node: ServerProcess) -> int:
    """How much memory an attack may leave allocated; a JVM's heap grows to its limit in any case."""
    return 600 * MIB if isinstance(node, Oracle) else 32 * MIB


@pytest.fixture(autouse=True)
def unharmed(node: ServerProcess, growth_bytes_max: int) -> Iterator[None]:
    """After each attack the same process serves a new client at once, no step was too long, and it has not grown."""
    pid, before = node.pid, resident_bytes(node.pid)
    steps = StepLogReader(node.log_path)
    yield
    check_served(node)
    assert node.pid == pid
    steps.check()
    grown = growth_bytes(pid, before, growth_bytes_max)
    assert grown < growth_bytes_max, f"grew by {grown / MIB:.0f} MiB\n{node.log_tail()}"
