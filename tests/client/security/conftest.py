"""A node with listeners of all security protocols, shared by the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.secured_nodes import Certificates, SecuredNode, secured_kafka, secured_minikafka


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.write()
    return made


@pytest.fixture(scope="session")
def secured_by_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as node:
        yield node


@pytest.fixture(scope="session")
def secured_by_minikafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    with secured_minikafka(tmp_path_factory.mktemp("secured")) as node:
        yield node


@pytest.fixture(params=["minikafka", pytest.param("kafka", marks=pytest.mark.oracle)])
def secured(request: pytest.FixtureRequest) -> SecuredNode:
    node: SecuredNode = request.getfixturevalue(f"secured_by_{request.param}")
    return node
