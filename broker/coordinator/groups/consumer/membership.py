"""Finds or creates the member that sends a heartbeat, and refuses members with a wrong epoch or instance id.

Source: Kafka's `GroupMetadataManager` (getOrMaybeSubscribe..., throwIf...).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from minikafka.broker.coordinator.groups.consumer.record_writing import (
    write_assignment,
    write_member_tombstones,
    write_metadata,
    write_target,
)
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.consumer_member import LEFT_FOR_A_WHILE, Assigned, ConsumerMember
from minikafka.protocol.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)

Owned = Mapping[bytes, frozenset[int]]


def check_size(builder: DecisionBuilder, group: ConsumerGroup, member_id: str) -> None:
    """Check that the member is known, or that the group is not full. Raises GroupMaxSizeReachedError."""
    size_max = builder.state.settings.consumer_group_size_max
    if len(group.members) >= size_max and member_id not in group.members:
        raise GroupMaxSizeReachedError(f"The consumer group has reached its maximum capacity of {size_max} members.")


def dynamic_member(
    group: ConsumerGroup, member_id: str, epoch: int, owned: Owned | None, *, may_join: bool, classic: bool = False
) -> ConsumerMember:
    """Find or create a member without an instance id.

    Args:
        epoch: The member epoch in the request; not checked for members of the classic protocol.
        owned: The partitions that the member reports; None if the request does not name them.
        may_join: Whether the member is created if it is unknown.

    Raises:
        UnknownMemberIdError, FencedMemberEpochError: The member has to join again.
    """
    member = known_member(group, member_id, may_join=may_join)
    if not classic:
        _check_epoch(member, epoch, owned)
    return member


def known_member(group: ConsumerGroup, member_id: str, *, may_join: bool = False) -> ConsumerMember:
    """The member with an id. Raises UnknownMemberIdError."""
    member = group.members.get(member_id)
    if member is None and not may_join:
        raise UnknownMemberIdError(f"Member {member_id} is not a member of group {group.group_id}.")
    return member or ConsumerMember(member_id)


def static_member(
    builder: DecisionBuilder,
    group: ConsumerGroup,
    ids: tuple[str, str],
    epoch: int,
    owned: Owned | None,
    *,
    may_join: bool,
    classic: bool = False,
) -> ConsumerMember:
    """Find or create a member with an instance id (KIP-345).

    A static member that left for a while is replaced by the next member with its instance id.

    Args:
        ids: The member id and the instance id.

    Raises:
        UnreleasedInstanceIdError: Another member with this instance id is in the group.
        UnknownMemberIdError, FencedInstanceIdError, FencedMemberEpochError: The sender is not, or no longer, a member.
    """
    member_id, instance_id = ids
    if not may_join:
        member = known_static_member(group, member_id, instance_id)
        if not classic:
            _check_epoch(member, epoch, owned)
        return member
    known_id = group.static_members.get(instance_id)
    if known_id is None:
        return known_member(group, member_id, may_join=True)
    known = group.members[known_id]
    if not classic and known.classic is None and known.epoch != LEFT_FOR_A_WHILE:
        raise UnreleasedInstanceIdError(
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is"
            f" owned by {known_id} member."
        )
    return _replace(builder, group, known, member_id)


def known_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """The member with an instance id. Raises UnknownMemberIdError, FencedInstanceIdError."""
    known_id = group.static_members.get(instance_id)
    if known_id is None:
        raise UnknownMemberIdError(f"Instance id {instance_id} is unknown.")
    if known_id != member_id:
        raise FencedInstanceIdError(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {known_id}."
        )
    return group.members[known_id]


def _replace(builder: DecisionBuilder, group: ConsumerGroup, known: ConsumerMember, member_id: str) -> ConsumerMember:
    """Write a new member with the subscription, target and partitions of the member that it replaces."""
    member = replace(known, member_id=member_id, epoch=0, previous_epoch=0)
    write_member_tombstones(builder, group, known.member_id)
    write_metadata(builder, group, member)
    write_target(builder, group, member_id, group.targets.get(known.member_id, {}))
    write_assignment(builder, group, member)
    return member


def _check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Check the epoch in a request. Raises FencedMemberEpochError.

    It may be the member's epoch, or 0 to join again. If the last response was lost, it may be the previous epoch, as
    long as the member reports only partitions that are assigned to it.
    """
    if epoch in (0, member.epoch):
        return
    if epoch < member.epoch and epoch == member.previous_epoch and _has_only(owned, member.assigned):
        return
    compared = "greater" if epoch > member.epoch else "smaller"
    raise FencedMemberEpochError(
        f"The consumer group member has a {compared} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin."
    )


def _has_only(owned: Owned | None, assigned: Assigned) -> bool:
    if owned is None:
        return False
    return all(partitions <= assigned.get(topic_id, {}).keys() for topic_id, partitions in owned.items())
