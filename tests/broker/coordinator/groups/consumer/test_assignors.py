"""The assignors: balanced, complete, sticky, and the same assignments as Apache Kafka's own."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.java_programs import compiled, why_not_compiled

from minikafka.broker.coordinator.groups.consumer.assignors import (
    RANGE,
    UNIFORM,
    Assignment,
    MemberSubscription,
    TopicPartitions,
    assign,
)
from minikafka.protocol.names import uuid_from_text, uuid_text

Group = tuple[dict[str, MemberSubscription], dict[bytes, TopicPartitions]]
SOURCE = Path(__file__).parents[4] / "support" / "assignors" / "Assignments.java"
NAMES = ["a", "b", "m1", "m2", "Aa", "BB", "\u00e9", "\U0001f600", "0c1d-long-member-id", "0c1e-long-member-id"]
QUESTIONS = 400


@st.composite
def groups(draw: st.DrawFn, *, same: bool | None = None) -> Group:
    """Members with targets that an earlier assignment of other members and smaller topics has left."""
    random = Random(draw(st.integers(0, 1 << 30)))
    return group(random, same=draw(st.booleans()) if same is None else same)


def group(random: Random, *, same: bool) -> Group:
    topics = {random.randbytes(16): TopicPartitions(random.randint(1, 40)) for _ in range(random.randint(1, 4))}
    names = random.sample(NAMES, random.randint(1, 8)) + [f"member-{i}" for i in range(random.choice([0, 0, 6, 30]))]
    members = {name: member(random, list(topics)) for name in names}
    if same:
        shared = next(iter(members.values())).topic_ids
        members = {name: MemberSubscription(shared, {}, one.instance_id) for name, one in members.items()}
    for _ in range(random.randint(0, 2)):
        members = changed(random, members, topics)
        topics = {id_: TopicPartitions(topic.count + random.choice([0, 0, 3])) for id_, topic in topics.items()}
    return members, topics


def member(random: Random, topic_ids: list[bytes]) -> MemberSubscription:
    subscribed = frozenset(random.sample(topic_ids, random.randint(0, len(topic_ids))))
    return MemberSubscription(subscribed, {}, random.choice([None, None, f"i{random.randint(0, 1 << 40)}"]))


def changed(
    random: Random, members: Mapping[str, MemberSubscription], topics: Mapping[bytes, TopicPartitions]
) -> dict[str, MemberSubscription]:
    """The members after an assignment, a few of them new."""
    before = {name: one for name, one in members.items() if random.random() < 0.8} or dict(members)
    after = assign(UNIFORM, before, topics)
    return {name: with_target(one, after.get(name, {})) for name, one in members.items()}


def with_target(one: MemberSubscription, target: Assignment) -> MemberSubscription:
    return MemberSubscription(one.topic_ids, target, one.instance_id)


def size(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


def moved(members: Mapping[str, MemberSubscription], after: Mapping[str, Assignment]) -> int:
    """How many partitions have lost their owner."""
    return sum(
        len(partitions - after[name].get(topic_id, frozenset()))
        for name, one in members.items()
        for topic_id, partitions in one.target.items()
    )


@given(groups(), st.sampled_from([UNIFORM, RANGE]))
def test_each_partition_that_someone_subscribes_to_has_one_owner(given_group: Group, assignor: str) -> None:
    members, topics = given_group
    after = assign(assignor, members, topics)
    assert after.keys() == members.keys()
    owned = [
        (topic_id, partition)
        for name, assignment in after.items()
        for topic_id, partitions in assignment.items()
        for partition in partitions
        if topic_id in members[name].topic_ids
    ]
    wanted = {topic_id for one in members.values() for topic_id in one.topic_ids}
    assert sorted(owned) == sorted((id_, number) for id_ in wanted for number in range(topics[id_].count))
    assert all(partitions for assignment in after.values() for partitions in assignment.values())


@given(groups(same=True))
def test_members_with_the_same_topics_differ_by_one_and_nothing_moves_without_need(given_group: Group) -> None:
    members, topics = given_group
    after = assign(UNIFORM, members, topics)
    sizes = [size(assignment) for assignment in after.values()]
    assert max(sizes) - min(sizes) <= 1
    subscribed = next(iter(members.values())).topic_ids
    kept = [{id_: those for id_, those in one.target.items() if id_ in subscribed} for one in members.values()]
    quota, extra = divmod(sum(topics[id_].count for id_ in subscribed), len(members))
    ranked = sorted(map(size, kept), reverse=True)
    excess = sum(max(0, count - quota - (rank < extra)) for rank, count in enumerate(ranked))
    unwanted = sum(size(one.target) for one in members.values()) - sum(ranked)
    assert moved(members, after) == excess + unwanted


@given(groups(same=False))
def test_the_subscribers_of_a_topic_differ_by_one_if_a_partition_of_it_can_move(given_group: Group) -> None:
    members, topics = given_group
    after = assign(UNIFORM, members, topics)
    for topic_id in topics:
        sizes = {name: size(after[name]) for name, one in members.items() if topic_id in one.topic_ids}
        with_it = [count for name, count in sizes.items() if topic_id in after[name]]
        assert not with_it or max(with_it) - min(sizes.values()) <= 1


@given(groups(), st.sampled_from([UNIFORM, RANGE]))
def test_assigning_again_changes_nothing(given_group: Group, assignor: str) -> None:
    members, topics = given_group
    once = assign(assignor, members, topics)
    settled = {name: with_target(one, once[name]) for name, one in members.items()}
    again = assign(assignor, settled, topics)
    assert all(again[name] is once[name] for name in members)


@given(groups(same=True))
def test_ranges_are_contiguous_and_the_same_for_equal_topics(given_group: Group) -> None:
    members, topics = given_group
    equal = dict.fromkeys(topics, TopicPartitions(7))
    for assignment in assign(RANGE, members, equal).values():
        assert len(set(assignment.values())) <= 1
        for partitions in assignment.values():
            assert partitions == frozenset(range(min(partitions), max(partitions) + 1))


def test_topics_that_do_not_exist_are_not_assigned() -> None:
    members = {"m": MemberSubscription(frozenset([b"g" * 16]), {b"g" * 16: frozenset([0])})}
    assert assign(UNIFORM, members, {}) == {"m": {}} == assign(RANGE, members, {})
    assert assign(UNIFORM, members, {}, homogeneous=False) == {"m": {}}
    assert assign(UNIFORM, {}, {}) == {}


def test_static_members_come_first_in_ranges() -> None:
    topic = b"t" * 16
    subscribed = frozenset([topic])
    members = {
        "a": MemberSubscription(subscribed),
        "z": MemberSubscription(subscribed, instance_id="i2"),
        "y": MemberSubscription(subscribed, instance_id="i1"),
    }
    after = assign(RANGE, members, {topic: TopicPartitions(3)})
    assert {name: set(assignment[topic]) for name, assignment in after.items()} == {"y": {0}, "z": {1}, "a": {2}}


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.skipif(why_not_compiled() is not None, reason=why_not_compiled() or "")
def test_kafkas_assignors_assign_the_same(tmp_path: Path) -> None:
    random = Random(1)
    cases = [(random.choice([UNIFORM, UNIFORM, RANGE]), random.random() < 0.5) for _ in range(QUESTIONS)]
    asked = [(assignor, same, *group(random, same=same)) for assignor, same in cases]
    text = "".join(question(*one) + "\n" for one in asked)
    command = compiled(SOURCE, tmp_path)
    answers = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    for (assignor, same, members, topics), answer in zip(asked, answers, strict=True):
        ours = assign(assignor, members, topics, homogeneous=same)
        assert {name: given for name, given in ours.items() if given} == parsed(answer), (assignor, same, members)


def question(
    assignor: str, same: bool, members: Mapping[str, MemberSubscription], topics: Mapping[bytes, TopicPartitions]
) -> str:
    listed = ",".join(f"{uuid_text(id_)}={topic.count}" for id_, topic in topics.items())
    those = [
        "|".join([name, one.instance_id or "", ",".join(map(uuid_text, sorted(one.topic_ids))), written(one.target)])
        for name, one in members.items()
    ]
    return ";".join([assignor, "same" if same else "other", listed, *those])


def written(assignment: Assignment) -> str:
    return "&".join(f"{uuid_text(id_)}={','.join(map(str, sorted(assignment[id_])))}" for id_ in sorted(assignment))


def parsed(answer: str) -> dict[str, Assignment]:
    found: dict[str, Assignment] = {}
    for part in filter(None, answer.split(";")):
        name, _, topics = part.partition("|")
        if topics:
            found[name] = {
                uuid_from_text(text.split("=")[0]): frozenset(map(int, text.split("=")[1].split(",")))
                for text in topics.split("&")
            }
    return found
