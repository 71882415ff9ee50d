"""ShardState: the groups, committed offsets and deadlines of one partition of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from random import Random
from typing import Any

from minikafka.broker.coordinator.deadlines import Deadlines
from minikafka.broker.coordinator.groups.group_settings import ConsumerGroupTimes, GroupSettings
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.consumer_group_records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
)
from minikafka.broker.coordinator.groups.state.group import Group
from minikafka.broker.coordinator.groups.state.offset_table import OffsetTable
from minikafka.controller.metadata.image import Image
from minikafka.controller.security.access import Access
from minikafka.protocol.messages.group_records import GroupMetadataKey, OffsetCommitKey
from minikafka.protocol.types import NIL_UUID

DeadlineName = tuple[str, str, str]
"""(kind, group id, member id): "session" of a member; "join" and "sync" of a classic group, or of a member of the
classic protocol in a consumer group; "rebalance" of a member that gives partitions up; "offsets" for the cleanup."""
REBALANCE_DEADLINES = ("join", "sync", "rebalance")
MEMBER_DEADLINES = ("session", *REBALANCE_DEADLINES)


def _resolve_nothing(group_id: str, patterns: frozenset[str], access: Access) -> None:
    """For shards that no requests come to."""


class ShardState:
    """The state that decisions are made from.

    Args:
        settings: The node's.
        random: Source of member ids.
        image: The cluster's topics and brokers.
        consumer_times: Returns the times of a consumer group, by its settings or the node's.
        resolve_patterns: Called with a group id, its regular expressions and what the member may do, to find their
            topics beside the requests.

    Attributes:
        classic_groups: By group id. Only `apply` adds and removes entries.
        consumer_groups: Likewise, and `forget` removes them. *Invariant:* no group is in both.
        forgotten: Groups that only requests which read find, until the next record. *Invariant:* in neither of the two.
        offsets: Committed offsets of all groups.
        deadlines: When sessions and rebalance phases time out.
    """

    def __init__(
        self,
        settings: GroupSettings,
        random: Random,
        image: Image,
        consumer_times: Callable[[str], ConsumerGroupTimes] | None = None,
        resolve_patterns: Callable[[str, frozenset[str], Access], None] = _resolve_nothing,
    ) -> None:
        self.settings = settings
        self.random = random
        self.image = image
        self.resolve_patterns = resolve_patterns
        self.consumer_times = consumer_times or (lambda group_id: settings.consumer_times)
        self.classic_groups: dict[str, ClassicGroup] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.forgotten: dict[str, ConsumerGroup] = {}
        self.offsets = OffsetTable()
        self.deadlines: Deadlines[DeadlineName] = Deadlines()

    def find(self, group_id: str) -> Group | None:
        """A group of either protocol."""
        return self.consumer_groups.get(group_id) or self.classic_groups.get(group_id)

    def find_to_read(self, group_id: str) -> Group | None:
        """As `find`, for requests that only read: also a forgotten group."""
        return self.find(group_id) or self.forgotten.get(group_id)

    def groups(self) -> Iterator[Group]:
        """All groups."""
        yield from self.classic_groups.values()
        yield from self.consumer_groups.values()

    def groups_to_read(self) -> Iterator[Group]:
        """As `groups`, for requests that only read: also the forgotten ones."""
        yield from self.groups()
        yield from self.forgotten.values()

    def forget(self, group: ConsumerGroup) -> None:
        """Remove a group without members, without a record: its offsets stay, and a new leader of the shard finds it.

        Kafka does so before it refuses a JoinGroup of an unknown member (`maybeDeleteEmptyConsumerGroup`, whose
        tombstones are not written then). Requests that read see the last committed state, that is the group, until
        another record of the shard is committed.
        """
        assert group.is_empty, f"{group.group_id} has members"
        self._remove_consumer(group.group_id)
        self.forgotten[group.group_id] = group

    def topic_id(self, name: str) -> bytes:
        """The 16-byte id of a topic, the nil id if the topic does not exist."""
        known = self.image.topics.get(name)
        return NIL_UUID if known is None else known.id

    def apply(self, key: Any, value: Any | None, record_offset: int, producer_id: int) -> None:
        """Apply a record, live or during loading. Groups and offsets are created and changed only here."""
        self.forgotten.clear()
        if isinstance(key, OffsetCommitKey):
            if value is not None and self.find(key.group) is None:
                # A group that only commits has no group record.
                self.classic_groups[key.group] = ClassicGroup(key.group)
            self.offsets.apply(key, value, record_offset, producer_id)
        elif isinstance(key, GroupMetadataKey):
            self._apply_classic(key, value)
        else:
            self._apply_consumer(key, value)

    def _apply_classic(self, key: GroupMetadataKey, value: Any | None) -> None:
        if value is None:
            self._remove_classic(key.group)
            return
        group = self.classic_groups.get(key.group)
        if group is None:
            self._remove_consumer(key.group)
            group = self.classic_groups[key.group] = ClassicGroup(key.group)
        group.apply(value)

    def _apply_consumer(self, key: Any, value: Any | None) -> None:
        group = self.consumer_groups.get(key.group_id)
        if value is None and (group is None or isinstance(key, ConsumerGroupMetadataKey)):
            self._remove_consumer(key.group_id)
            return
        if group is None:
            # Either a group that only committed offsets, or a classic one whose tombstone was compacted away.
            self._remove_classic(key.group_id)
            group = self.consumer_groups[key.group_id] = ConsumerGroup(key.group_id)
        if value is None and isinstance(key, ConsumerGroupMemberMetadataKey):
            # Its session may be that of the member which the same decision puts in its place: a static member that
            # returns with the same id. Without a member it ends unnoticed.
            self._cancel_member(key.group_id, key.member_id, *REBALANCE_DEADLINES)
        group.apply(key, value)

    def end_transaction(self, producer_id: int, *, committed: bool) -> Generator[None, None, None]:
        """Apply a transaction marker: its pending offsets become committed or are dropped, some at each step."""
        self.forgotten.clear()
        yield from self.offsets.end_transaction(producer_id, committed=committed)

    def _remove_classic(self, group_id: str) -> None:
        """Sessions of its members go on: they may be members of a consumer group from now on."""
        group = self.classic_groups.pop(group_id, None)
        if group is None:
            return
        self.deadlines.cancel(("join", group_id, ""))
        self.deadlines.cancel(("sync", group_id, ""))

    def _remove_consumer(self, group_id: str) -> None:
        group = self.consumer_groups.pop(group_id, None)
        for member_id in () if group is None else group.members:
            self._cancel_member(group_id, member_id)

    def _cancel_member(self, group_id: str, member_id: str, *kinds: str) -> None:
        for kind in kinds or MEMBER_DEADLINES:
            self.deadlines.cancel((kind, group_id, member_id))
