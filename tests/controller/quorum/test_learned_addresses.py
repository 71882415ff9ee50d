"""Addresses that handshakes tell: a limited number, of which each may change."""

from __future__ import annotations

from minikafka.controller.quorum.handshake import Hello
from minikafka.controller.quorum.learned_addresses import LEARNED_MAX, LearnedAddresses


def hello(node_id: int, port: int, *, dynamic: bool = True) -> Hello:
    return Hello(node_id, None, "cluster", {node_id + 1000: ("voter", port)}, is_dynamic=dynamic, address=("own", port))


def test_the_number_is_limited_and_known_nodes_may_move() -> None:
    learned = LearnedAddresses()
    for node_id in range(LEARNED_MAX + 5):
        learned.learn(hello(node_id, 1))
    assert len(learned.firsthand) == len(learned.told) == LEARNED_MAX
    learned.learn(hello(0, 2))
    assert learned.all()[0] == ("own", 2)
    assert learned.all()[1000] == ("voter", 2)


def test_a_static_quorum_tells_nothing() -> None:
    learned = LearnedAddresses()
    learned.learn(hello(1, 1, dynamic=False))
    assert learned.all() == {}
