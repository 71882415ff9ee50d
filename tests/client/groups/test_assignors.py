"""Assignors against Kafka's: range and roundrobin assign exactly as Kafka, cooperative-sticky has its properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.assignor import Assignment, Subscription
from minikafka.client.groups.assignors import (
    ASSIGNORS,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    in_order,
)
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.names import TopicPartition

COUNTS = {"a": 3, "b": 3}


def shares(name: str, counts: dict[str, int], members: dict[str, Subscription]) -> dict[str, list[str]]:
    assignment = ASSIGNORS[name].assign(counts, members)
    return {member: [str(tp) for tp in share] for member, share in assignment.items()}


def both(*topics: str) -> dict[str, Subscription]:
    return {"c1": Subscription(topics), "c2": Subscription(topics)}


def test_range_gives_the_first_members_more() -> None:
    assert shares("range", COUNTS, both("a", "b")) == {
        "c1": ["a-0", "a-1", "b-0", "b-1"],
        "c2": ["a-2", "b-2"],
    }


def test_roundrobin_assigns_in_turn() -> None:
    assert shares("roundrobin", COUNTS, both("a", "b")) == {
        "c1": ["a-0", "a-2", "b-1"],
        "c2": ["a-1", "b-0", "b-2"],
    }


def test_roundrobin_skips_members_without_a_subscription() -> None:
    """The example of Kafka's `RoundRobinAssignor`."""
    members = {
        "c0": Subscription(["t0"]),
        "c1": Subscription(["t0", "t1"]),
        "c2": Subscription(["t0", "t1", "t2"]),
    }
    assert shares("roundrobin", {"t0": 1, "t1": 2, "t2": 3}, members) == {
        "c0": ["t0-0"],
        "c1": ["t1-0"],
        "c2": ["t1-1", "t2-0", "t2-1", "t2-2"],
    }


def test_static_members_come_first() -> None:
    members = {"z": Subscription(["a"], instance_id="1"), "y": Subscription(["a"], instance_id="2")}
    assert in_order({"b": Subscription(["a"]), **members, "a": Subscription(["a"])}) == ["z", "y", "a", "b"]


@pytest.mark.parametrize("name", ASSIGNORS)
def test_topics_that_do_not_exist_are_left_out(name: str) -> None:
    assert shares(name, {}, both("a")) == {"c1": [], "c2": []}
    assert shares(name, {"unread": 4}, both("a")) == {"c1": [], "c2": []}


def test_cooperative_sticky_moves_in_two_steps() -> None:
    owned = [TopicPartition("a", number) for number in range(4)]
    members = {"c1": Subscription(["a"], owned=owned, generation=3), "c2": Subscription(["a"])}
    first = ASSIGNORS["cooperative-sticky"].assign({"a": 4}, members)
    assert (len(first["c1"]), first["c2"]) == (2, [])
    members["c1"] = Subscription(["a"], owned=first["c1"], generation=4)
    second = ASSIGNORS["cooperative-sticky"].assign({"a": 4}, members)
    assert second["c1"] == first["c1"]
    assert sorted(second["c1"] + second["c2"]) == owned


def test_claims_of_an_old_generation_are_ignored() -> None:
    claim = [TopicPartition("a", 0)]
    members = {
        "c1": Subscription(["a"], owned=claim, generation=1),
        "c2": Subscription(["a"], owned=claim, generation=2),
    }
    assert shares("cooperative-sticky", {"a": 1}, members) == {"c1": [], "c2": ["a-0"]}


groups = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.lists(st.sampled_from(["t0", "t1", "t2"]), unique=True, max_size=3).map(Subscription),
    min_size=1,
    max_size=6,
)
topic_counts = st.dictionaries(st.sampled_from(["t0", "t1", "t2"]), st.integers(1, 9))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(counts=topic_counts, members=groups)
def test_every_partition_is_assigned_to_exactly_one_subscriber(
    name: str, counts: dict[str, int], members: dict[str, Subscription]
) -> None:
    assignment = ASSIGNORS[name].assign(counts, members)
    dealt = [tp for share in assignment.values() for tp in share]
    readable = {topic for subscription in members.values() for topic in subscription.topics}
    assert sorted(dealt) == sorted(
        TopicPartition(topic, n) for topic, count in counts.items() if topic in readable for n in range(count)
    )
    assert all(tp.topic in members[member].topics for member, share in assignment.items() for tp in share)


@pytest.mark.slow
@given(counts=topic_counts, members=groups, joining=groups)
def test_cooperative_sticky_converges_to_a_balanced_assignment(
    counts: dict[str, int], members: dict[str, Subscription], joining: dict[str, Subscription]
) -> None:
    assignor = ASSIGNORS["cooperative-sticky"]
    assignment: Assignment = assignor.assign(counts, members)
    everyone = {**members, **joining}
    for generation in range(1, 9):
        everyone = {
            member: Subscription(one.topics, owned=assignment.get(member, ()), generation=generation)
            for member, one in everyone.items()
        }
        before, assignment = assignment, assignor.assign(counts, everyone)
        for tp in [tp for share in assignment.values() for tp in share]:
            holder = next(member for member, share in assignment.items() if tp in share)
            others = [m for m, share in before.items() if tp in share and m != holder and m in everyone]
            assert not any(tp.topic in everyone[member].topics for member in others), "given before given up"
    assert assignment == before
    loads = {member: len(share) for member, share in assignment.items()}
    for member, share in assignment.items():
        for tp in share:
            assert all(loads[other] + 1 >= loads[member] for other in everyone if tp.topic in everyone[other].topics)


@given(
    topics=st.lists(st.text(max_size=5), unique=True, max_size=4).map(sorted),
    owned=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), unique=True).map(sorted),
    generation=st.integers(-1, 100),
    user_data=st.one_of(st.none(), st.binary(max_size=9)),
)
def test_subscriptions_survive_encoding_and_decoding(
    topics: list[str], owned: list[tuple[str, int]], generation: int, user_data: bytes | None
) -> None:
    partitions = [TopicPartition(*one) for one in owned]
    subscription = Subscription(topics, owned=partitions, generation=generation, user_data=user_data)
    assert decode_subscription(encode_subscription(subscription)) == subscription
    assert decode_assignment(encode_assignment(partitions)) == partitions


def test_older_and_newer_versions_are_decoded() -> None:
    version_0 = bytes.fromhex("0000" "00000001" "000161" "ffffffff")
    assert decode_subscription(version_0) == Subscription(["a"], owned=[])
    newer = b"\x00\x09" + encode_subscription(Subscription(["a"]))[2:] + b"more"
    assert decode_subscription(newer).topics == ["a"]
    assert decode_assignment(b"") == []


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff\x00", b"\x00\x01\x7f\xff\xff\xff", b"\x00\x00\x00"])
def test_malformed_data_is_rejected(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_subscription(data)
