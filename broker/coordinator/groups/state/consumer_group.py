"""`ConsumerGroup`: epochs, members and assignments of one consumer group (KIP-848).

The state is in the log, and changes only by `apply`, live and after a restart. Two fields are not in the log, since a
new coordinator finds them out again: the topics for which the metadata hash was computed, and the newest topic when
patterns were resolved. Source: Kafka's `ConsumerGroup` and `ModernGroup`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from minikafka.broker.coordinator.groups.state.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from minikafka.broker.coordinator.groups.state.consumer_member import Assigned, ConsumerMember, Target, names_size_bytes
from minikafka.broker.coordinator.groups.state.group import Committer, PartitionCheck
from minikafka.broker.coordinator.groups.state.offset_table import CommittedOffset
from minikafka.broker.coordinator.groups.state.subscriber_counts import SubscriberCounts
from minikafka.protocol.errors import ErrorCode

CONSUMER = "consumer"
EPOCH_REQUIRED_FROM = 9
"""The first version of OffsetCommit that members of the consumer protocol may use."""


class ConsumerGroupState(StrEnum):
    """A group's state, spelled as in ListGroups and ConsumerGroupDescribe."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ResolvedPattern(NamedTuple):
    """The topics that match a regular expression, and the time of the search, in milliseconds since 1970."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class SeenTopics(NamedTuple):
    """The topics from which the metadata hash of a group epoch was computed: their partition counts, by topic id."""

    epoch: int
    topics: Mapping[bytes, int]


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """One consumer group.

    Attributes:
        epoch: Raised when members, subscriptions or topics change; a new target assignment is then due.
        metadata_hash: The hash of the topics that members subscribe to.
        assignment_epoch: The group epoch for which the target assignment was computed.
        assignment_timestamp_ms: The time when the target assignment was computed; 0 if never.
        members: The members by member id, oldest first.
        static_members: The member id of each static member, by instance id.
        targets: The target of each member, by member id.
        owners: By topic id and partition number, the member that has the partition, or was told to give it up.
            *Invariant:* the partitions are those of the members' current assignments.
        patterns: The resolved regular expressions that members subscribe to.
        subscribers: The number of members that subscribe to each topic. *Invariant:* the counts of all members.
        size_bytes: The memory for the data that members gave, and for the topics that their patterns match.
        seen: The topics of the metadata hash; None until this coordinator has looked at the topics.
        patterns_seen: The newest topic when patterns were resolved; None if this coordinator has resolved none.
    """

    group_id: str
    epoch: int = 1
    metadata_hash: int = 0
    assignment_epoch: int = 1
    assignment_timestamp_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    owners: dict[bytes, dict[int, str]] = field(default_factory=dict)
    patterns: dict[str, ResolvedPattern] = field(default_factory=dict)
    seen: SeenTopics | None = None
    patterns_seen: bytes | None = None
    subscribers: SubscriberCounts = field(default_factory=SubscriberCounts)
    size_bytes: int = 0

    # -- as a Group ----------------------------------------------------------------------------------------------

    type_name = CONSUMER
    listed_protocol_type = CONSUMER
    allows_offset_deletion = True

    @property
    def state(self) -> ConsumerGroupState:
        """Computed from epochs and members."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        return str(self.state)

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed(self, topic: str) -> bool:
        return self.subscribers.of(topic) > 0

    def check_commit(self, committer: Committer) -> ErrorCode | PartitionCheck:
        """The member's epoch, or an earlier one in which it already had the partition (KIP-1251)."""
        if committer.epoch < 0 and not self.members:
            return ErrorCode.NONE
        nobody = not committer.member_id and committer.instance_id is None
        if committer.transactional and committer.epoch == -1 and nobody:
            return ErrorCode.NONE
        member = self.members.get(committer.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        classic = member.classic is not None
        if not committer.transactional and not classic and committer.version < EPOCH_REQUIRED_FROM:
            return ErrorCode.UNSUPPORTED_VERSION
        if committer.epoch == member.epoch:
            return ErrorCode.NONE
        stale = ErrorCode.ILLEGAL_GENERATION if classic or committer.transactional else ErrorCode.STALE_MEMBER_EPOCH
        if committer.epoch > member.epoch:
            return stale
        return lambda topic_id, partition: (
            ErrorCode.NONE if _had(member, topic_id, partition, committer.epoch) else stale
        )

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == member.epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

    def retention_starts_ms(self, committed: CommittedOffset) -> int | None:
        return committed.commit_timestamp

    def tombstones(self) -> list[tuple[Any, None]]:
        group_id = self.group_id
        keys: list[Any] = []
        for member_id in self.members:
            keys.append(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))
        for member_id in self.targets:
            keys.append(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))
        keys.append(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))
        for member_id in self.members:
            keys.append(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))
        for pattern in self.patterns:
            keys.append(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern))
        keys.append(ConsumerGroupMetadataKey(group_id=group_id))
        return [(key, None) for key in keys]

    @property
    def kept(self) -> tuple[int, int]:
        return self.size_bytes, len(self.members)

    # -- queries -------------------------------------------------------------------------------------------------

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics of a member."""
        matched = self.matched_by(member.pattern)
        return member.topics | matched if matched else member.topics

    def matched_by(self, pattern: str) -> frozenset[str]:
        """The topics of a pattern; one that is not resolved yet matches none."""
        resolved = self.patterns.get(pattern) if pattern else None
        return frozenset() if resolved is None else resolved.topics

    def subscribers_of(self, pattern: str) -> int:
        """How many members subscribe to a regular expression."""
        return self.subscribers.patterns.get(pattern, 0)

    def target_of(self, member_id: str, instance_id: str | None) -> Target:
        """A member's target; a static member that returns has that of the member that it replaces."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, member_id)
        return self.targets.get(member_id, {})

    def owner_of(self, topic_id: bytes, partition: int) -> str | None:
        """The member that has a partition, if any."""
        return self.owners.get(topic_id, {}).get(partition)

    # -- records -------------------------------------------------------------------------------------------------

    def apply(self, key: Any, value: Any | None) -> None:
        """Apply a record, but for the tombstone of the group."""
        match key:
            case ConsumerGroupMetadataKey():
                assert value is not None, "a group's tombstone removes it"
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupMemberMetadataKey():
                self._apply_member(key.member_id, value)
            case ConsumerGroupTargetAssignmentMetadataKey():
                self.assignment_epoch = -1 if value is None else value.assignment_epoch
                self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp
            case ConsumerGroupTargetAssignmentMemberKey():
                self._apply_target(key.member_id, value)
            case ConsumerGroupCurrentMemberAssignmentKey():
                self._apply_assignment(key.member_id, value)
            case ConsumerGroupRegularExpressionKey():
                self._apply_pattern(key.regular_expression, value)
            case _:
                assert isinstance(key, ConsumerGroupPartitionMetadataKey), key

    def _apply_member(self, member_id: str, value: Any | None) -> None:
        known = self.members.get(member_id)
        if known is not None and self.static_members.get(known.instance_id or "") == member_id:
            del self.static_members[known.instance_id or ""]
        self.size_bytes -= known.size_bytes if known is not None else 0
        if value is None:
            self._count(known, None)
            self._release(self.members.pop(member_id, None))
            return
        member = (known or ConsumerMember(member_id)).with_metadata(value)
        self._count(known, member)
        self.size_bytes += member.size_bytes
        self.members[member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id

    def _apply_pattern(self, pattern: str, value: Any | None) -> None:
        before = self.matched_by(pattern)
        known = self.patterns.pop(pattern, None)
        self.size_bytes -= names_size_bytes(known.topics) if known is not None else 0
        if value is not None:
            self.patterns[pattern] = ResolvedPattern(frozenset(value.topics), value.version, value.timestamp)
            self.size_bytes += names_size_bytes(self.patterns[pattern].topics)
        self.subscribers.resolve(pattern, before, self.matched_by(pattern))

    def _count(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """Count the subscription of a member as it is now in place of the one before."""
        if before and after and (before.topics, before.pattern) == (after.topics, after.pattern):
            return
        if before is not None:
            self.subscribers.remove(before, self.matched_by(before.pattern))
        if after is not None:
            self.subscribers.add(after, self.matched_by(after.pattern))

    def _apply_target(self, member_id: str, value: Any | None) -> None:
        self.targets.pop(member_id, None)
        if value is not None:
            self.targets[member_id] = {
                bytes(topic.topic_id): frozenset(topic.partitions) for topic in value.topic_partitions
            }

    def _apply_assignment(self, member_id: str, value: Any | None) -> None:
        known = self.members.get(member_id)
        if known is None:
            if value is None:
                return
            known = ConsumerMember(member_id)
        self._release(known)
        member = known.without_assignment() if value is None else known.with_assignment(value)
        self.members[member_id] = member
        for topic_id, partition in _partitions(member):
            self.owners.setdefault(topic_id, {})[partition] = member_id

    def _release(self, member: ConsumerMember | None) -> None:
        """Forget the partitions of a member, but for those that another one has received since."""
        if member is None:
            return
        for topic_id, partition in _partitions(member):
            owners = self.owners.get(topic_id, {})
            if owners.get(partition) == member.member_id:
                del owners[partition]
                if not owners:
                    del self.owners[topic_id]


def _partitions(member: ConsumerMember) -> Iterator[tuple[bytes, int]]:
    assignments: tuple[Assigned, Assigned] = member.assigned, member.revoking
    for assigned in assignments:
        for topic_id, partitions in assigned.items():
            for partition in partitions:
                yield topic_id, partition


def _had(member: ConsumerMember, topic_id: bytes, partition: int, epoch: int) -> bool:
    """Whether the member had the partition in an epoch before its own."""
    maps: tuple[Mapping[bytes, Mapping[int, int]], ...] = (member.assigned, member.revoking)
    for assigned in maps:
        received = assigned.get(topic_id, {}).get(partition)
        if received is not None:
            return epoch >= received
    return False
