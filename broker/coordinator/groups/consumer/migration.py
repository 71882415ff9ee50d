"""Groups with members that change their protocol (`group.consumer.migration.policy`).

    classic group ── a member of the consumer protocol joins ──► consumer group with members of both protocols
    consumer group ── its last member of the consumer protocol leaves ──► classic group

Members keep their partitions. One batch has the tombstones of the old group and the records of the new one.
Source: Kafka's `GroupMetadataManager` (convertToConsumerGroup, convertToClassicGroup).
"""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.broker.coordinator.groups.classic.rebalance import finish_join, join_error, prepare_rebalance
from minikafka.broker.coordinator.groups.consumer.classic_protocol import (
    read_assignment,
    read_subscription,
    write_assignment_bytes,
)
from minikafka.broker.coordinator.groups.consumer.record_writing import (
    write_assignment,
    write_assignment_epoch,
    write_epoch,
    write_metadata,
    write_target,
)
from minikafka.broker.coordinator.groups.consumer.subscribed_topics import metadata_hash
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.classic_group import CONSUMER, ClassicGroup
from minikafka.broker.coordinator.groups.state.classic_member import Member
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.consumer_member import ClassicProtocols, ConsumerMember, Target
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import ErrorCode, GroupIdNotFoundError
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.messages.group_records import GroupMetadataKey
from minikafka.protocol.messages.sync_group import SyncGroupResponse

# -- upgrade -----------------------------------------------------------------------------------------------------


def to_consumer_group(builder: DecisionBuilder, classic: ClassicGroup) -> ConsumerGroup:
    """Write a consumer group in place of a classic one with members, which stay in the classic protocol.

    Returns:
        The group as it will be; the shard has its own once the records are applied.

    Raises:
        GroupIdNotFoundError: The policy forbids it, or the group is not one of consumers with known assignors.
    """
    _check_upgrade(builder, classic)
    image = builder.state.image
    try:
        converted = [_converted(member, classic, image) for member in classic.members.values()]
    except MalformedMessage as error:
        refusal = f"Cannot upgrade classic group {classic.group_id} to consumer group: {error}."
        raise GroupIdNotFoundError(refusal) from None
    group = ConsumerGroup(classic.group_id)
    builder.write(GroupMetadataKey(group=classic.group_id), None)
    first = len(builder.decision.records)
    for member, _ in converted:
        write_metadata(builder, group, member)
    topics = frozenset[str]().union(*(member.topics for member, _ in converted))
    write_epoch(builder, group.group_id, classic.generation, metadata_hash(image, topics))
    for member, target in converted:
        write_target(builder, group, member.member_id, target)
    write_assignment_epoch(builder, group, classic.generation, 0)
    for member, _ in converted:
        write_assignment(builder, group, member)
    for key, value in builder.decision.records[first:]:
        group.apply(key, value)
    _release_waiting(builder, classic)
    return group


def _check_upgrade(builder: DecisionBuilder, classic: ClassicGroup) -> None:
    settings = builder.state.settings
    reason = ""
    if not settings.migration_policy.allows_upgrade:
        reason = "online upgrade is disabled"
    elif classic.protocol_type != CONSUMER:
        reason = "the group does not use the consumer embedded protocol"
    elif len(classic.members) > settings.consumer_group_size_max:
        reason = "the group size exceeds the consumer group maximum size"
    if reason:
        raise GroupIdNotFoundError(
            f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}."
        )


def _converted(member: Member, classic: ClassicGroup, image: Image) -> tuple[ConsumerMember, Target]:
    """The member and its target, which is what it has. Raises MalformedMessage."""
    name = classic.protocol_name or member.protocols[0][0]
    subscription = read_subscription(member.metadata(name))
    target = read_assignment(member.assignment, image)
    converted = ConsumerMember(
        member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=subscription.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
        epoch=classic.generation,
        previous_epoch=classic.generation,
        assigned={topic_id: dict.fromkeys(sorted(parts), classic.generation) for topic_id, parts in target.items()},
    )
    return converted, target


def _release_waiting(builder: DecisionBuilder, classic: ClassicGroup) -> None:
    """Have the members that wait for a rebalance join again."""
    for member in classic.members.values():
        finish_join(builder, member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        if member.syncing is not None:
            builder.answer(member.syncing, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            member.syncing = None
        builder.schedule_session(classic, member.member_id, member.session_timeout_ms)


# -- downgrade ---------------------------------------------------------------------------------------------------


def can_become_classic(builder: DecisionBuilder, group: ConsumerGroup, leaving: Iterable[ConsumerMember]) -> bool:
    """Whether only members of the classic protocol are left without these, and the policy allows a classic group."""
    gone = {member.member_id for member in leaving}
    remaining = [member for member in group.members.values() if member.member_id not in gone]
    settings = builder.state.settings
    return (
        bool(remaining)
        and all(member.classic is not None for member in remaining)
        and settings.migration_policy.allows_downgrade
        and len(remaining) <= settings.group_size_max
    )


def to_classic_group(
    builder: DecisionBuilder,
    group: ConsumerGroup,
    leaving: Iterable[ConsumerMember],
    joining: ConsumerMember | None = None,
    *,
    rebalance: bool,
) -> None:
    """Write a classic group in place of a consumer group.

    Args:
        leaving: Members that are gone.
        joining: A static member that replaces one of them, and has its partitions.
        rebalance: Whether the members have to join again.
    """
    classic = _classic_group(builder, group, {member.member_id for member in leaving}, joining)
    for key, _ in group.tombstones():
        builder.write(key, None)
    builder.write_group(classic, classic.value())

    def then(later: DecisionBuilder) -> None:
        there = later.state.classic_groups[group.group_id]
        for member in classic.members.values():
            known = there.members[member.member_id]
            there.update(known, member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
            later.cancel_member(group.group_id, member.member_id)
            later.schedule_session(there, member.member_id, member.session_timeout_ms)
        if rebalance:
            prepare_rebalance(later, there)

    builder.follow(then)


def _classic_group(
    builder: DecisionBuilder, group: ConsumerGroup, gone: set[str], joining: ConsumerMember | None
) -> ClassicGroup:
    classic = ClassicGroup(group.group_id, state_timestamp=builder.now.clock_ms)
    members = [member for member in group.members.values() if member.member_id not in gone]
    for member in members if joining is None else [*members, joining]:
        classic.add(_classic_member(member), CONSUMER)
    classic.generation = group.epoch
    classic.protocol_name = classic.select_protocol()
    for known in classic.members.values():
        target = group.target_of(known.member_id, known.instance_id)
        metadata = known.metadata(classic.protocol_name)
        known.assignment = write_assignment_bytes(target, metadata, builder.state.image)
    return classic


def _classic_member(member: ConsumerMember) -> Member:
    assert member.classic is not None, f"{member.member_id} uses the consumer protocol"
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=member.classic.protocols,
    )
