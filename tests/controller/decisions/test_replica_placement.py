"""Placement of replicas over brokers and racks."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.controller.decisions.replica_placement import UsableBroker, place
from minikafka.protocol.errors import InvalidReplicationFactorError


def brokers(racks: str, fenced: str = "") -> list[UsableBroker]:
    """One broker for each letter, which is its rack; `.` is no rack. `fenced` has an x for each fenced broker."""
    return [
        UsableBroker(index, None if rack == "." else rack, fenced[index : index + 1] == "x")
        for index, rack in enumerate(racks)
    ]


@pytest.mark.slow
@given(st.integers(1, 7), st.integers(1, 40), st.data())
def test_replicas_are_distinct_and_brokers_get_equal_shares(
    count: int, partitions: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, count))
    placed = place(
        brokers("." * count), partitions=partitions, replication_factor=factor, random=Random(data.draw(st.integers()))
    )
    assert all(len(set(replicas)) == factor for replicas in placed)
    assert len(placed) == partitions
    whole_rounds = placed[: partitions // count * count]
    leaders = Counter(replicas[0] for replicas in whole_rounds)
    assert len(set(leaders.values())) <= 1


@given(st.integers(), st.integers(1, 30))
def test_replicas_are_spread_over_all_racks(seed: int, partitions: int) -> None:
    placed = place(brokers("aabbcc"), partitions=partitions, replication_factor=3, random=Random(seed))
    racks = dict(enumerate("aabbcc"))
    assert all({racks[replica] for replica in replicas} == set("abc") for replicas in placed)


@given(st.integers(), st.integers(1, 30))
def test_a_fenced_broker_does_not_lead_and_comes_last(seed: int, partitions: int) -> None:
    placed = place(brokers("....", "x..x"), partitions=partitions, replication_factor=2, random=Random(seed))
    assert all(set(replicas) == {1, 2} for replicas in placed)
    placed = place(brokers("....", "x..x"), partitions=partitions, replication_factor=3, random=Random(seed))
    assert all(set(replicas[:2]) == {1, 2} for replicas in placed)


def test_a_rack_of_fenced_brokers_has_no_leader() -> None:
    for seed in range(20):
        placed = place(brokers("abb", "x.."), partitions=4, replication_factor=2, random=Random(seed))
        assert all(replicas[0] in (1, 2) for replicas in placed)
        assert all(0 in replicas for replicas in placed)  # the rack takes precedence over the fenced state


def test_a_single_broker_gets_all_partitions() -> None:
    assert place(brokers("."), partitions=3, replication_factor=1, random=Random(0)) == [(0,)] * 3


@pytest.mark.parametrize(
    ("usable", "factor", "words"),
    [
        (brokers("..."), 0, "must be positive"),
        (brokers("..."), 4, "only 3 broker\\(s\\) are registered"),
        (brokers("..", "xx"), 1, "All brokers are currently fenced"),
        ([], 1, "All brokers are currently fenced"),
    ],
)
def test_an_impossible_placement_is_rejected(usable: list[UsableBroker], factor: int, words: str) -> None:
    with pytest.raises(InvalidReplicationFactorError, match=words):
        place(usable, partitions=1, replication_factor=factor, random=Random(0))


def test_the_same_seed_gives_the_same_placement() -> None:
    one, same = (place(brokers("aabb"), partitions=9, replication_factor=2, random=Random(5)) for _ in range(2))
    assert one == same
