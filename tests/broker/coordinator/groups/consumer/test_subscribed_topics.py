"""The topics of a consumer group are counted as members come and go: a join looks at its own names, not at all others.

Each new member united the subscriptions of all others in one step: 530 ms for 60 members with 9,900 names each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.coordinator_bench import GROUP
from support.topics_bench import TopicsBench

from minikafka.broker.coordinator.groups.consumer.consumer_heartbeat import consumer_heartbeat
from minikafka.broker.coordinator.groups.consumer.subscribed_topics import subscribed, topics_with
from minikafka.broker.coordinator.groups.state.classic_member import Caller
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from minikafka.broker.coordinator.groups.state.consumer_member import ConsumerMember, names_size_bytes
from minikafka.broker.coordinator.groups.state.subscriber_counts import SubscriberCounts
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

NAMES, EXISTING = [f"t{number}" for number in range(6)], 3
IDS, PATTERNS = ["a", "b", "c"], ["", "p", "q"]
TOPICS = st.frozensets(st.sampled_from(NAMES))
MEMBERS = st.builds(ConsumerMember, st.sampled_from(IDS), topics=TOPICS, pattern=st.sampled_from(PATTERNS))
RECORDS = st.one_of(
    MEMBERS,
    st.tuples(st.just("member gone"), st.sampled_from(IDS)),
    st.tuples(st.just("assignment"), st.sampled_from(IDS)),
    st.tuples(st.just("no assignment"), st.sampled_from(IDS)),
    st.tuples(st.sampled_from(PATTERNS), st.none() | TOPICS),
)


def key_and_value(record: Any) -> tuple[Any, Any]:
    if isinstance(record, ConsumerMember):
        key = ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id=record.member_id)
        return key, record.metadata_value()
    what, of = record
    if what == "member gone":
        return ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id=of), None
    if what.endswith("assignment"):
        value = ConsumerMember(of, epoch=3).assignment_value() if what == "assignment" else None
        return ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=of), value
    resolved = None if of is None else ConsumerGroupRegularExpressionValue(topics=sorted(of), version=1, timestamp=1)
    return ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression=what), resolved


def counted(group: ConsumerGroup) -> SubscriberCounts:
    counts = SubscriberCounts()
    for member in group.members.values():
        counts.add(member, group.matched_by(member.pattern))
    return counts


def kept_bytes(group: ConsumerGroup) -> int:
    said = sum(ConsumerMember(one.member_id).with_metadata(one.metadata_value()).size_bytes
               for one in group.members.values() if one.size_bytes)  # fmt: skip
    return said + sum(names_size_bytes(found.topics) for found in group.patterns.values())


def united(group: ConsumerGroup, members: dict[str, ConsumerMember]) -> set[str]:
    """The topics that exist of all members."""
    return set[str]().union(*(group.topics_of(one) for one in members.values())) & set(NAMES[:EXISTING])


TWO_OF_ONE_PATTERN: list[Any] = [
    ConsumerMember("a", pattern="p"),
    ConsumerMember("b", pattern="p"),
    ("p", frozenset(NAMES)),
    ("p", frozenset(NAMES[:1])),
]


@pytest.mark.slow
@example(TWO_OF_ONE_PATTERN, None, {"a"})
@settings(max_examples=300, deadline=None)
@given(st.lists(RECORDS, max_size=30), st.none() | MEMBERS, st.sets(st.sampled_from(IDS)))
def test_the_counts_are_those_of_the_members_after_any_records(
    records: list[Any], joining: ConsumerMember | None, gone: set[str]
) -> None:
    bench = TopicsBench()
    for number, name in enumerate(NAMES[:EXISTING]):
        bench.set_topic(name, bytes([number + 1]) * 16, 1)
    image, group = bench.state.image, ConsumerGroup(GROUP)
    for record in records:
        group.apply(*key_and_value(record))
        assert group.subscribers == counted(group)
        assert group.size_bytes == kept_bytes(group)
        assert subscribed(image, group) == united(group, group.members)
        everything = set[str]().union(*(group.topics_of(one) for one in group.members.values()))
        assert {name for name in NAMES if group.is_subscribed(name)} == everything
    members = {member_id: member for member_id, member in group.members.items() if member_id not in gone}
    if joining is not None:
        members[joining.member_id] = replace(joining, epoch=7)
    assert topics_with(image, group, joining, gone) == united(group, members)


class CountingCounts(dict[str, int]):
    """A dict that counts how many keys were looked at."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        CountingCounts.looks += 1
        return super().get(key, default)

    def keys(self) -> Any:
        CountingCounts.looks += min(len(self), EXISTING)
        return super().keys()


@pytest.mark.parametrize("members", [1, 10, 40])
@pytest.mark.parametrize("joins", [True, False])
def test_a_join_looks_at_no_names_of_others(monkeypatch: pytest.MonkeyPatch, members: int, joins: bool) -> None:
    """Also one that exists already and leaves."""
    own, bench = 50, TopicsBench()
    bench.set_topic("0", b"t" * 16, 1)
    for member in range(members):
        beat(bench, f"m{member}", 0, [f"{member * own + number}" for number in range(own)])
    group = bench.state.consumer_groups[GROUP]
    assert len(group.subscribers.names) == members * own
    looked_at: list[int] = []
    seen = ConsumerGroup.topics_of
    group.subscribers.names = CountingCounts(group.subscribers.names)
    CountingCounts.looks = 0

    def topics_of(self: ConsumerGroup, member: ConsumerMember) -> frozenset[str]:
        looked_at.append(len(member.topics) if member.member_id != "new" else 0)
        return seen(self, member)

    monkeypatch.setattr(ConsumerGroup, "topics_of", topics_of)
    monkeypatch.setattr(
        "minikafka.broker.coordinator.groups.consumer.consumer_heartbeat.current_or_new_target",
        lambda builder, group, epoch, member: (group.assignment_epoch, {}),
    )
    if joins:
        beat(bench, "new", 0, [f"new{number}" for number in range(own)])
    else:
        beat(bench, "m0", -1, None)
    assert sum(looked_at) == 0
    assert CountingCounts.looks <= 3 * own


def beat(bench: TopicsBench, member_id: str, epoch: int, names: list[str] | None) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch)
    if names is not None:
        request.rebalance_timeout_ms, request.topic_partitions = 300_000, []
        request.subscribed_topic_names = names
    caller = Caller("client", "/host", 1)
    assert bench.ask(lambda builder, ticket: consumer_heartbeat(builder, request, caller, ticket)).error_code == 0
