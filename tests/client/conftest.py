"""Fixtures: async tests run under asyncio and trio, tests with a broker against minikafka and, if found, Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.node import NodeProcess
from support.oracle import Oracle, why_absent

SETTINGS = {
    "num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.assignment.interval.ms": 0,
    "offsets.topic.replication.factor": 1,
}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def minikafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with NodeProcess(tmp_path_factory.mktemp("minikafka") / "data", settings=SETTINGS) as node:
        yield node.bootstrap


@pytest.fixture(scope="session")
def kafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    reason = why_absent()
    if reason:
        pytest.skip(reason)
    with Oracle(tmp_path_factory.mktemp("kafka") / "data", settings=SETTINGS) as node:
        yield node.bootstrap


@pytest.fixture(params=["minikafka", pytest.param("kafka", marks=pytest.mark.oracle)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of a running broker; each test uses its own topics and groups."""
    return str(request.getfixturevalue(f"{request.param}_bootstrap"))


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, for a topic or a group."""
    name = f"{request.module.__name__.rpartition('.')[2]}-{request.node.name}"
    return "".join(letter if letter.isalnum() else "-" for letter in name)
