"""The target assignment of a consumer group: computed for a new group epoch, by an assignor, and written as records.

Source: Kafka's `TargetAssignmentBuilder`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import structlog

from minikafka.broker.coordinator.groups.consumer.assignors import MemberSubscription, TopicPartitions, assign
from minikafka.broker.coordinator.groups.consumer.record_writing import write_assignment_epoch, write_target
from minikafka.broker.coordinator.groups.consumer.subscribed_topics import racks_of, topic_ids
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.consumer_member import ConsumerMember, Target
from minikafka.broker.coordinator.groups.state.java_order import in_map_order

log = structlog.get_logger("minikafka.groups")


def current_or_new_target(
    builder: DecisionBuilder, group: ConsumerGroup, epoch: int, member: ConsumerMember
) -> tuple[int, Target]:
    """The target assignment of a member, and its epoch; computed anew if the group epoch is newer.

    A target that was computed within `consumer.assignment.interval.ms` is kept until that has passed (KIP-1263),
    or until the clock is set back.

    Args:
        epoch: The group epoch after this decision.
        member: The member after this decision.
    """
    interval_ms = builder.state.consumer_times(group.group_id).assignment_interval_ms
    last_ms = group.assignment_timestamp_ms
    too_early = last_ms and 0 <= builder.now.clock_ms - last_ms < interval_ms
    if group.assignment_epoch >= epoch or too_early:
        return group.assignment_epoch, group.target_of(member.member_id, member.instance_id)
    return epoch, _compute(builder, group, epoch, member)


def _compute(builder: DecisionBuilder, group: ConsumerGroup, epoch: int, member: ConsumerMember) -> Target:
    members = _members_with(group, member)
    image = builder.state.image
    subscriptions = {
        one.member_id: MemberSubscription(
            topic_ids=topic_ids(image, group.topics_of(one)),
            target=group.target_of(one.member_id, one.instance_id),
            instance_id=one.instance_id,
            rack_id=one.rack_id,
        )
        for one in members.values()
    }
    topics = {}
    for topic_id in frozenset[bytes]().union(*(one.topic_ids for one in subscriptions.values())):
        topic = image.topics_by_id[topic_id]
        racks = tuple(frozenset(names) for names in racks_of(image, topic))
        topics[topic_id] = TopicPartitions(len(topic.partitions), racks)
    assignor = preferred_assignor(members.values(), builder.state.settings.assignors, changed=member)
    found = assign(assignor, subscriptions, topics, homogeneous=_is_homogeneous(members))
    for member_id, target in found.items():
        if target != subscriptions[member_id].target or member_id not in group.targets:
            write_target(builder, group, member_id, target)
    write_assignment_epoch(builder, group, epoch, builder.now.clock_ms)
    log.info("group assigned", group=group.group_id, epoch=epoch, members=len(members), assignor=assignor)
    return found[member.member_id]


def preferred_assignor(
    members: Iterable[ConsumerMember], available: tuple[str, ...], *, changed: ConsumerMember | None = None
) -> str:
    """The assignor that most members ask for; the first of `group.consumer.assignors` if none does.

    Of equally many the first in the order of Java's `HashMap`, as in Kafka. There the member whose heartbeat changes
    the group is taken out of the votes and put in again: a name that nobody else asks for goes to the front.

    Args:
        members: The group's members; with `changed`, as it will be.
        changed: The member for whose heartbeat the target is computed; None to describe the group.
    """
    asked = Counter(one.server_assignor for one in members if one.server_assignor in available)
    last = None if changed is None else changed.server_assignor
    return max(
        in_map_order(asked), key=lambda name: (asked[name], asked[name] == 1 and name == last), default=available[0]
    )


def _members_with(group: ConsumerGroup, member: ConsumerMember) -> dict[str, ConsumerMember]:
    """The group's members with this one added or replaced; a static one takes the place of the one before."""
    members = {**group.members, member.member_id: member}
    replaced = group.static_members.get(member.instance_id or "")
    if replaced is not None and replaced != member.member_id:
        del members[replaced]
    return members


def _is_homogeneous(members: dict[str, ConsumerMember]) -> bool:
    """Whether all members subscribe alike: to the same names, or to one regular expression and no names."""
    alike = {(one.topics, one.pattern) for one in members.values()}
    return len(alike) == 1 and all(not topics or not pattern for topics, pattern in alike)
