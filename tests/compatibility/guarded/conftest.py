"""Nodes with logins, certificates and ACLs: minikafka, and Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.guarded_nodes import OWN, GuardedNode, guarded_node


@pytest.fixture(scope="session")
def guarded_minikafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    with guarded_node("minikafka", tmp_path_factory.mktemp("guarded")) as node:
        yield node


@pytest.fixture(scope="session")
def guarded_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    with guarded_node("kafka", tmp_path_factory.mktemp("guarded")) as node:
        yield node


@pytest.fixture
def guarded(request: pytest.FixtureRequest, node_kind: str) -> GuardedNode:
    """The node of the kind that a test's parameter `node_kind` names."""
    node: GuardedNode = request.getfixturevalue(f"guarded_{node_kind}")
    return node


@pytest.fixture
def own_name(name: str) -> str:
    """A unique name of a topic or a group that alice may use."""
    return f"{OWN}{name}"
