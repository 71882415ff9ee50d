"""Removes members that leave a consumer group, for good or for a while, or that a passed timeout fences.

Source: Kafka's `GroupMetadataManager` (consumerGroupLeave, consumerGroupFenceMembers).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import structlog

from minikafka.broker.coordinator.groups.consumer.membership import known_member, known_static_member
from minikafka.broker.coordinator.groups.consumer.migration import can_become_classic, to_classic_group
from minikafka.broker.coordinator.groups.consumer.record_writing import (
    write_assignment,
    write_epoch,
    write_member_tombstones,
    write_pattern_tombstone,
)
from minikafka.broker.coordinator.groups.consumer.subscribed_topics import metadata_hash, topics_with
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.consumer_member import LEFT_FOR_A_WHILE, ConsumerMember, MemberState

log = structlog.get_logger("minikafka.groups")

RETRY_MS = 500
"""The time in ms after which fencing a member whose timeout has passed is tried again, if the append failed."""


def leave(builder: DecisionBuilder, group: ConsumerGroup, ids: tuple[str, str | None], epoch: int) -> None:
    """Remove a member that leaves for good (epoch -1), or mark a static member as gone for a while (epoch -2).

    Args:
        ids: The member id and the instance id.

    Raises:
        UnknownMemberIdError, FencedInstanceIdError: The sender is not, or no longer, a member.
    """
    member_id, instance_id = ids
    if instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_static_member(group, member_id, instance_id)
    if instance_id is not None and epoch == LEFT_FOR_A_WHILE:
        write_assignment(builder, group, _left_for_a_while(member))
    else:
        fence(builder, group, [member])


def _left_for_a_while(member: ConsumerMember) -> ConsumerMember:
    assigned = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()}
    return replace(member, epoch=LEFT_FOR_A_WHILE, assigned=assigned, revoking={})


def fence(builder: DecisionBuilder, group: ConsumerGroup, members: Iterable[ConsumerMember]) -> None:
    """Remove members. The group epoch increases; the next heartbeat of another member computes its assignment.

    If only members of the classic protocol are left, the group becomes a classic one.
    """
    gone = {member.member_id: member for member in members}
    if not gone:
        return
    if can_become_classic(builder, group, gone.values()):
        to_classic_group(builder, group, gone.values(), rebalance=True)
        return
    for member_id in gone:
        write_member_tombstones(builder, group, member_id)
    patterns = {member.pattern for member in group.members.values() if member.member_id not in gone}
    for pattern in sorted({member.pattern for member in gone.values() if member.pattern} - patterns):
        write_pattern_tombstone(builder, group, pattern)
    image = builder.state.image
    topics = topics_with(image, group, None, without=gone)
    write_epoch(builder, group.group_id, group.epoch + 1, metadata_hash(image, topics))


def member_timed_out(builder: DecisionBuilder, group: ConsumerGroup, kind: str, member_id: str) -> None:
    """Fence a member after a timeout: no heartbeat, no revocation, no JoinGroup or no SyncGroup came in time."""
    member = group.members.get(member_id)
    if member is None or (kind == "rebalance" and member.state is not MemberState.UNREVOKED_PARTITIONS):
        return
    builder.schedule_member(kind, group.group_id, member_id, RETRY_MS)
    log.info("group member timed out", group=group.group_id, member=member_id, timeout=kind)
    fence(builder, group, [member])


def schedule_after_loading(builder: DecisionBuilder, group: ConsumerGroup) -> None:
    """Start the timeouts of all members anew, since the log does not tell when they began."""
    for member in group.members.values():
        timeout_ms = builder.state.consumer_times(group.group_id).session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        builder.schedule_member("session", group.group_id, member.member_id, timeout_ms)
        if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
            builder.schedule_member("rebalance", group.group_id, member.member_id, member.rebalance_timeout_ms)
