"""ShardState: the groups, committed offsets and deadlines of one partition of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from minikafka.broker.coordinator.deadlines import Deadlines
from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.offset_table import OffsetTable
from minikafka.protocol.messages.group_records import GroupMetadataKey, OffsetCommitKey

DeadlineName = tuple[str, str, str]
"""(kind, group id, member id): "session" of a member; "join" and "sync" of a group; "offsets" for the cleanup."""


class ShardState:
    """The state that decisions are made from.

    Args:
        settings: The node's.
        random: Source of member ids.
        topic_id: Returns the 16-byte id of a topic, the nil id if the topic does not exist.

    Attributes:
        groups: By group id. Only `apply` adds and removes entries.
        offsets: Committed offsets of all groups.
        deadlines: When sessions and rebalance phases time out.
    """

    def __init__(self, settings: GroupSettings, random: Random, topic_id: Callable[[str], bytes]) -> None:
        self.settings = settings
        self.random = random
        self.topic_id = topic_id
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetTable()
        self.deadlines: Deadlines[DeadlineName] = Deadlines()

    def apply(self, key: Any, value: Any | None, record_offset: int, producer_id: int) -> None:
        """Apply a record, live or during loading. Groups and offsets are created, changed and removed only here."""
        if isinstance(key, OffsetCommitKey):
            if value is not None and key.group not in self.groups:
                # A group that only commits has no group record.
                self.groups[key.group] = ClassicGroup(key.group)
            self.offsets.apply(key, value, record_offset, producer_id)
            return
        assert isinstance(key, GroupMetadataKey), key
        if value is None:
            self._remove_group(key.group)
            return
        group = self.groups.get(key.group)
        if group is None:
            group = self.groups[key.group] = ClassicGroup(key.group)
        group.apply(value)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a transaction marker: its pending offsets become committed or are dropped."""
        self.offsets.end_transaction(producer_id, committed=committed)

    def _remove_group(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        for member_id in [*group.members, *group.pending_joins]:
            self.deadlines.cancel(("session", group_id, member_id))
        self.deadlines.cancel(("join", group_id, ""))
        self.deadlines.cancel(("sync", group_id, ""))
