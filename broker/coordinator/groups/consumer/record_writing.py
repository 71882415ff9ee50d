"""Writes the records of a consumer group: epoch, members, target and current assignments, regular expressions."""

from __future__ import annotations

from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TargetPartitions,
)
from minikafka.broker.coordinator.groups.state.consumer_member import ConsumerMember, Target


def write_epoch(builder: DecisionBuilder, group_id: str, epoch: int, metadata_hash: int) -> None:
    """Write a group epoch."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    builder.write(ConsumerGroupMetadataKey(group_id=group_id), value)


def write_metadata(builder: DecisionBuilder, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Write what a member said of itself."""
    key = ConsumerGroupMemberMetadataKey(group_id=group.group_id, member_id=member.member_id)
    builder.write(key, member.metadata_value())


def write_assignment(builder: DecisionBuilder, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Write the record of a member's epochs, state and partitions."""
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group.group_id, member_id=member.member_id)
    builder.write(key, member.assignment_value())


def write_target(builder: DecisionBuilder, group: ConsumerGroup, member_id: str, target: Target) -> None:
    """Write the target of a member."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in target.items()
        ]
    )
    builder.write(ConsumerGroupTargetAssignmentMemberKey(group_id=group.group_id, member_id=member_id), value)


def write_assignment_epoch(builder: DecisionBuilder, group: ConsumerGroup, epoch: int, timestamp_ms: int) -> None:
    """Write the group epoch of the target assignment, and the time when it was computed."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    builder.write(ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id), value)


def write_member_tombstones(builder: DecisionBuilder, group: ConsumerGroup, member_id: str) -> None:
    """Write tombstones for all records of a member."""
    group_id = group.group_id
    builder.write(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    builder.write(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    builder.write(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def write_pattern_tombstone(builder: DecisionBuilder, group: ConsumerGroup, pattern: str) -> None:
    """Forget a regular expression that nobody subscribes to any more."""
    builder.write(ConsumerGroupRegularExpressionKey(group_id=group.group_id, regular_expression=pattern), None)
