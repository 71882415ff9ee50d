"""Expiry of committed offsets (`offsets.retention.minutes`, KIP-211), and removal of groups that are left empty.

Source: Kafka's `OffsetMetadataManager.cleanupExpiredOffsets` and `GroupCoordinatorShard.cleanupGroupMetadata`.
"""

from __future__ import annotations

from functools import partial

from minikafka.broker.coordinator.groups.decision_builder import RECORDS_MAX, DecisionBuilder
from minikafka.broker.coordinator.groups.state.group import Group
from minikafka.broker.coordinator.groups.state.offset_table import CommittedOffset
from minikafka.protocol.messages.group_records import OffsetCommitKey


def clean_up_expired(builder: DecisionBuilder, group_ids: list[str]) -> None:
    """Write tombstones for expired offsets, and for groups that have neither members nor offsets.

    Args:
        group_ids: The groups to check.
    """
    for position, group_id in enumerate(group_ids):
        if len(builder.decision.records) >= RECORDS_MAX:
            builder.follow(partial(clean_up_expired, group_ids=group_ids[position:]))
            return
        group = builder.state.find(group_id)
        if group is not None and _expire_offsets(builder, group) and group.is_empty:
            for key, _ in group.tombstones():
                builder.write(key, None)


def _expire_offsets(builder: DecisionBuilder, group: Group) -> bool:
    """Write tombstones for a group's expired offsets.

    Returns:
        Whether no committed offset is left and no open transaction has pending ones.
    """
    offsets = builder.state.offsets
    nothing_left = not offsets.has_open_transaction(group.group_id)
    for topic, partitions in offsets.topics(group.group_id):
        for index, committed in partitions:
            if _is_expired(builder, group, topic, index, committed):
                builder.write(OffsetCommitKey(group=group.group_id, topic=topic, partition=index), None)
            else:
                nothing_left = False
    return nothing_left


def _is_expired(builder: DecisionBuilder, group: Group, topic: str, index: int, committed: CommittedOffset) -> bool:
    since_ms = group.retention_starts_ms(committed)
    if since_ms is None or group.is_subscribed(topic):
        return False
    if builder.state.offsets.is_pending(group.group_id, topic, index):
        return False
    return committed.is_expired(since_ms, builder.now.clock_ms, builder.state.settings.retention_ms)
