"""Removal of very many offsets, in steps: those in deleted partitions; expired ones (`offsets.retention.minutes`,
KIP-211), with the groups that are left empty.

Others may change the groups between two decisions: each group and offset is looked up when it is its turn.

Source: Kafka's `OffsetMetadataManager.cleanupExpiredOffsets`, `onPartitionsDeleted` and
`GroupCoordinatorShard.cleanupGroupMetadata`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from minikafka.broker.coordinator.decision import Decision, Now
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.group import Group
from minikafka.broker.coordinator.groups.state.shard_state import ShardState
from minikafka.protocol.messages.group_records import OffsetCommitKey
from minikafka.protocol.names import TopicPartition

WORK_AT_ONCE = 5_000
"""Groups and offsets that are looked at before others run, if none is removed; about 5 ms."""
TOMBSTONE_WORK = 5
"""What a tombstone adds to that."""
OFFSETS_AT_ONCE = 100
"""Of a topic, between two looks at the work."""


def clean_up_expired(state: ShardState, now: Now) -> Generator[Decision, None, None]:
    """Write tombstones for expired offsets, and for groups that have neither members nor offsets."""
    removal = _Removal(state, now)
    for group_id in [group.group_id for group in state.groups()]:
        removal.begin_group()
        for topic, indexes in state.offsets.parts(group_id, OFFSETS_AT_ONCE):
            removal.expire_offsets(group_id, topic, indexes)
            yield from removal.taken_if_due()
        removal.remove_if_empty(group_id)
        yield from removal.taken_if_due()
    yield removal.taken()


def delete_partition_offsets(
    state: ShardState, now: Now, partitions: Iterable[TopicPartition]
) -> Generator[Decision, None, None]:
    """Write tombstones for offsets in deleted partitions, committed and pending ones."""
    removal = _Removal(state, now)
    deleted: dict[str, set[int]] = {}
    for topic, index in partitions:
        deleted.setdefault(topic, set()).add(index)
    for group_id in state.offsets.groups():
        for topic, index in state.offsets.known_of(group_id, deleted):
            removal.delete_offset(group_id, topic, index)
            yield from removal.taken_if_due()
        removal.work += 1
        yield from removal.taken_if_due()
    yield removal.taken()


class _Removal:
    """The decision that is being made.

    Attributes:
        work: What it took until now; see `WORK_AT_ONCE`.
    """

    def __init__(self, state: ShardState, now: Now) -> None:
        self._state = state
        self._now = now
        self._builder = DecisionBuilder(state, now)
        self.work = 0
        self._expired = 0
        """The tombstones for offsets of the current group in this decision."""

    def taken(self) -> Decision:
        """The decision; another one begins."""
        decision = self._builder.decision
        self._builder = DecisionBuilder(self._state, self._now)
        self.work = self._expired = 0
        return decision

    def taken_if_due(self) -> Generator[Decision, None, None]:
        """The decision, if others should run now."""
        if self.work >= WORK_AT_ONCE:
            yield self.taken()

    def begin_group(self) -> None:
        self._expired = 0

    def expire_offsets(self, group_id: str, topic: str, indexes: list[int]) -> None:
        group = self._state.find(group_id)
        self.work += len(indexes)
        if group is None or group.is_subscribed(topic):
            return
        for index in indexes:
            if self._is_expired(group, topic, index):
                self._write_tombstone(group_id, topic, index)
                self._expired += 1

    def _is_expired(self, group: Group, topic: str, index: int) -> bool:
        offsets = self._state.offsets
        committed = offsets.get(group.group_id, topic, index)
        since_ms = None if committed is None else group.retention_starts_ms(committed)
        if committed is None or since_ms is None or offsets.is_pending(group.group_id, topic, index):
            return False
        return committed.is_expired(since_ms, self._now.clock_ms, self._state.settings.retention_ms)

    def remove_if_empty(self, group_id: str) -> None:
        """Remove the group if it has no members, no offsets but those that this decision removes, and no open
        transaction has any."""
        group, offsets = self._state.find(group_id), self._state.offsets
        self.work += 1
        if group is None or not group.is_empty or offsets.has_open_transaction(group_id):
            return
        if offsets.count(group_id) == self._expired:
            tombstones = group.tombstones()
            self.work += TOMBSTONE_WORK * len(tombstones)
            self._builder.decision.records += tombstones

    def delete_offset(self, group_id: str, topic: str, index: int) -> None:
        if self._state.offsets.is_known(group_id, topic, index):
            self._write_tombstone(group_id, topic, index)

    def _write_tombstone(self, group_id: str, topic: str, index: int) -> None:
        self._builder.write(OffsetCommitKey(group=group_id, topic=topic, partition=index), None)
        self.work += TOMBSTONE_WORK
