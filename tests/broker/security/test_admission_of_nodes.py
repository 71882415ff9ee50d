"""Who may speak as a node at the controller listener, if there is an authorizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import trio.testing

from minikafka.broker.security.between_nodes import admission_of_nodes
from minikafka.broker.settings.node_config import NodeConfig, load_config
from minikafka.controller.security.access import ANONYMOUS, Principal
from minikafka.protocol.acl_codes import AclOperation, AclResourceType


@dataclass
class Only:
    """An authorizer that allows one principal to act as a node."""

    principal: Principal

    def allows(self, principal: Principal, host: str, *asked: Any, log_denied: bool) -> bool:
        assert asked == (AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, "kafka-cluster")
        assert log_denied
        return principal == self.principal

    def allows_any(self, *_: object) -> bool:
        return True


def plaintext() -> NodeConfig:
    return load_config(
        settings={
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
            "controller.quorum.voters": "1@127.0.0.1:2",
        }
    )


def test_without_an_authorizer_every_node_is_admitted() -> None:
    stream, _ = trio.testing.memory_stream_pair()
    assert admission_of_nodes(plaintext(), None)(stream, None)()


def test_without_tls_a_node_is_anonymous_and_needs_the_right_to_act_as_one() -> None:
    stream, _ = trio.testing.memory_stream_pair()
    assert admission_of_nodes(plaintext(), Only(ANONYMOUS))(stream, None)()
    assert not admission_of_nodes(plaintext(), Only(Principal("User", "admin")))(stream, None)()


def test_who_has_logged_in_is_not_anonymous() -> None:
    stream, _ = trio.testing.memory_stream_pair()
    node = Principal("User", "node")
    assert admission_of_nodes(plaintext(), Only(node))(stream, node)()
    assert not admission_of_nodes(plaintext(), Only(ANONYMOUS))(stream, node)()
