"""Expiry of committed offsets (`offsets.retention.minutes`, KIP-211), and removal of groups that are left empty.

Source: Kafka's `OffsetMetadataManager.cleanupExpiredOffsets` and `GroupCoordinatorShard.cleanupGroupMetadata`.
"""

from __future__ import annotations

from collections.abc import Generator

from minikafka.broker.coordinator.decision import Decision, Now
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.group import Group
from minikafka.broker.coordinator.groups.state.shard_state import ShardState
from minikafka.protocol.messages.group_records import OffsetCommitKey

WORK_AT_ONCE = 5_000
"""Groups and offsets that are looked at before others run, if nothing has expired; about 5 ms."""
TOMBSTONE_WORK = 5
"""What a tombstone adds to that."""
OFFSETS_AT_ONCE = 100
"""Of a topic, between two looks at the work."""


def clean_up_expired(state: ShardState, now: Now) -> Generator[Decision, None, None]:
    """Write tombstones for expired offsets, and for groups that have neither members nor offsets.

    Others may change the groups between two decisions: each group and offset is looked up when it is its turn.
    """
    return _Cleanup(state, now).decisions()


class _Cleanup:
    def __init__(self, state: ShardState, now: Now) -> None:
        self._state = state
        self._now = now
        self._begin()

    def _begin(self) -> None:
        """Begin a decision."""
        self._builder = DecisionBuilder(self._state, self._now)
        self._work = 0
        self._expired = 0
        """The tombstones for offsets of the current group in this decision."""

    def decisions(self) -> Generator[Decision, None, None]:
        for group_id in [group.group_id for group in self._state.groups()]:
            self._expired = 0
            for topic, indexes in self._state.offsets.parts(group_id, OFFSETS_AT_ONCE):
                self._expire_offsets(group_id, topic, indexes)
                if self._work >= WORK_AT_ONCE:
                    yield self._builder.decision
                    self._begin()
            self._remove_if_empty(group_id)
            if self._work >= WORK_AT_ONCE:
                yield self._builder.decision
                self._begin()
        yield self._builder.decision

    def _expire_offsets(self, group_id: str, topic: str, indexes: list[int]) -> None:
        group = self._state.find(group_id)
        self._work += len(indexes)
        if group is None or group.is_subscribed(topic):
            return
        for index in indexes:
            if self._is_expired(group, topic, index):
                self._builder.write(OffsetCommitKey(group=group_id, topic=topic, partition=index), None)
                self._expired += 1
                self._work += TOMBSTONE_WORK

    def _is_expired(self, group: Group, topic: str, index: int) -> bool:
        offsets = self._state.offsets
        committed = offsets.get(group.group_id, topic, index)
        since_ms = None if committed is None else group.retention_starts_ms(committed)
        if committed is None or since_ms is None or offsets.is_pending(group.group_id, topic, index):
            return False
        return committed.is_expired(since_ms, self._now.clock_ms, self._state.settings.retention_ms)

    def _remove_if_empty(self, group_id: str) -> None:
        """Remove the group if it has no members, no offsets but those that this decision removes, and no open
        transaction has any."""
        group, offsets = self._state.find(group_id), self._state.offsets
        self._work += 1
        if group is None or not group.is_empty or offsets.has_open_transaction(group_id):
            return
        if offsets.count(group_id) == self._expired:
            tombstones = group.tombstones()
            self._work += TOMBSTONE_WORK * len(tombstones)
            self._builder.decision.records += tombstones
