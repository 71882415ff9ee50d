"""Addresses that handshakes tell: a limited number, of which each may change."""

from __future__ import annotations

from minikafka.controller.quorum.handshake import Hello
from minikafka.controller.quorum.learned_addresses import LEARNED_MAX, LearnedAddresses


def hello(node_id: int, port: int) -> Hello:
    return Hello(node_id, None, "cluster", {node_id + 1000: ("voter", port)}, is_dynamic=True, address=("own", port))


def test_the_number_is_limited_and_known_nodes_may_move() -> None:
    learned = LearnedAddresses()
    for node_id in range(LEARNED_MAX + 5):
        learned.learn(hello(node_id, 1))
    assert len(learned.firsthand) == len(learned.told) == LEARNED_MAX
    learned.learn(hello(0, 2))
    assert learned.all()[0] == ("own", 2)
    assert learned.all()[1000] == ("voter", 2)


def test_an_address_that_failed_gives_way_to_what_others_told_and_they_take_turns() -> None:
    learned = LearnedAddresses()
    learned.learn(hello(1, 2))
    assert learned.of(1001, ("own log", 1)) == ("own log", 1)
    learned.failed(1001, ("own log", 1))
    assert learned.of(1001, ("own log", 1)) == ("voter", 2)
    learned.failed(1001, ("voter", 2))
    assert learned.of(1001, ("own log", 1)) == ("own log", 1)
    learned.failed(1001, ("own log", 1))
    assert learned.of(1001, ("own log", 1)) == ("own log", 1)
    assert learned.of(1001, None) is None


def test_what_a_node_says_of_itself_goes_first_also_where_it_was_not_found_before() -> None:
    learned = LearnedAddresses()
    learned.failed(1, ("own", 2))
    learned.learn(hello(1, 2))
    assert learned.of(1, ("own log", 1)) == ("own", 2)
