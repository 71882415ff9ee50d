"""Clusters of real processes, each started once for all tests that share its layout, and repaired before each test."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support.clusters import heal, make
from support.secured_clusters import RESERVED, add_load_user, secure

from minikafka.cli.local_cluster import LocalCluster

UNHURRIED = {"broker.session.timeout.ms": "5000"}
"""Long sessions, since a busy machine pauses processes for seconds; a killed broker is noticed by its connection."""


@pytest.fixture(scope="session")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with make(tmp_path_factory.mktemp("three"), brokers=3, settings=UNHURRIED) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory, settings = tmp_path_factory.mktemp("secured"), {**UNHURRIED, **RESERVED["settings"]}
    cluster = make(directory, brokers=3, **{**RESERVED, "settings": settings})
    secure(cluster)
    with cluster:
        add_load_user(cluster)
        yield cluster


@pytest.fixture(scope="session")
def nodes_and_controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("apart")
    with make(directory, brokers=3, controllers=1, isolated=True, settings=UNHURRIED) as cluster:
        yield cluster


@pytest.fixture
def three(three_nodes: LocalCluster) -> LocalCluster:
    """Three combined nodes (broker and controller), as `minikafka cluster` starts them."""
    heal(three_nodes)
    return three_nodes


@pytest.fixture
def secured_three(secured_nodes: LocalCluster) -> LocalCluster:
    """Three combined nodes with TLS, SASL, mutual TLS among themselves, and ACLs (`support.secured_clusters`)."""
    heal(secured_nodes)
    return secured_nodes


@pytest.fixture
def brokers(nodes_and_controller: LocalCluster) -> LocalCluster:
    """Brokers 1, 2 and 3 and a controller-only node 4, which fences brokers even if all of them are dead."""
    heal(nodes_and_controller)
    return nodes_and_controller


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A unique name."""
    return re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:200]
