"""Clusters of real processes, each started once for all tests that need its shape, and healed before each."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support.clusters import heal, make

from minikafka.cli.local_cluster import LocalCluster

UNHURRIED = {"broker.session.timeout.ms": "5000"}
"""A busy machine lets processes wait for seconds, which must not make a broker look dead; who is killed does soon."""


@pytest.fixture(scope="session")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with make(tmp_path_factory.mktemp("three"), brokers=3, settings=UNHURRIED) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def nodes_and_controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("apart")
    with make(directory, brokers=3, controllers=1, isolated=True, settings=UNHURRIED) as cluster:
        yield cluster


@pytest.fixture
def three(three_nodes: LocalCluster) -> LocalCluster:
    """Three nodes that are brokers and controllers both, as `minikafka cluster` has them."""
    heal(three_nodes)
    return three_nodes


@pytest.fixture
def brokers(nodes_and_controller: LocalCluster) -> LocalCluster:
    """Three brokers 1, 2, 3 and a controller of its own, 4: with it all brokers can be dead and judged to be so."""
    heal(nodes_and_controller)
    return nodes_and_controller


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:200]
