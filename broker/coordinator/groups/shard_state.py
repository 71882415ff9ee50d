"""All groups and offsets of one partition of `__consumer_offsets`: what the runtime keeps, loads and wakes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from minikafka.broker.coordinator.deadlines import Deadlines
from minikafka.broker.coordinator.decision import Decision, Now
from minikafka.broker.coordinator.groups.decision_builder import DeadlineName, Turn
from minikafka.broker.coordinator.groups.group import ClassicGroup
from minikafka.broker.coordinator.groups.group_admin import tidy_up
from minikafka.broker.coordinator.groups.group_records import decode_record, encode_record
from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.broker.coordinator.groups.heartbeat_and_leave import session_is_over
from minikafka.broker.coordinator.groups.offset_table import Offsets
from minikafka.broker.coordinator.groups.rebalance import (
    join_time_is_up,
    prepare,
    sync_time_is_up,
)
from minikafka.protocol.messages.group_records import GroupMetadataKey, OffsetCommitKey

TIDY_UP: DeadlineName = ("offsets", "", "")


class GroupsState:
    """The state of one group coordinator; a `runtime.CoordinatorState`.

    Args:
        settings: Of the node.
        random: For the ids of members.
        topic_id: The id of a topic that exists, 16 bytes; the nil id of one that does not.

    Attributes:
        groups: By group id. Only `apply` adds and removes.
        offsets: What groups have committed.
        deadlines: When sessions and phases of rebalances end.
    """

    def __init__(self, settings: GroupSettings, random: Random, topic_id: Callable[[str], bytes]) -> None:
        self.settings = settings
        self.random = random
        self.topic_id = topic_id
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()
        self.deadlines: Deadlines[DeadlineName] = Deadlines()

    # -- records -------------------------------------------------------------------------------------------------

    encode = staticmethod(encode_record)
    decode = staticmethod(decode_record)

    def apply(self, key: Any, value: Any | None, record_offset: int, producer_id: int) -> None:
        """Make it so: the only way in which groups and offsets come, change and go, live and while loading."""
        if isinstance(key, OffsetCommitKey):
            if value is not None and key.group not in self.groups:
                # A group that only commits has no record of its own.
                self.groups[key.group] = ClassicGroup(key.group)
            self.offsets.apply(key, value, record_offset, producer_id)
            return
        assert isinstance(key, GroupMetadataKey), key
        if value is None:
            self._forget(key.group)
            return
        group = self.groups.get(key.group)
        if group is None:
            group = self.groups[key.group] = ClassicGroup(key.group)
        group.install(value)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A transaction's marker was written: its pending offsets count, or are gone."""
        self.offsets.end_transaction(producer_id, committed=committed)

    def _forget(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        for member_id in [*group.members, *group.pending_joins]:
            self.deadlines.cancel(("session", group_id, member_id))
        self.deadlines.cancel(("join", group_id, ""))
        self.deadlines.cancel(("sync", group_id, ""))

    # -- beginning -----------------------------------------------------------------------------------------------

    def loaded(self, now: Now) -> list[Decision]:
        """The whole log is applied: from here on members have to be heard of. One decision a group that is too big."""
        self.deadlines.set(TIDY_UP, now.steady_ms + self.settings.retention_check_interval_ms)
        decisions: list[Decision] = []
        for group in self.groups.values():
            turn = Turn(self, now)
            for member in group.members.values():
                turn.schedule_session(group, member.member_id, member.session_timeout_ms)
            if len(group.members) > self.settings.group_size_max:
                prepare(turn, group)
                decisions.append(turn.decision)
        return decisions

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When `expire` has something to do, on the steady clock."""
        return self.deadlines.next_ms()

    def due(self, now: Now) -> list[DeadlineName]:
        """What is due; each is handed to `expire` in turn."""
        return self.deadlines.due(now.steady_ms)

    def expire(self, name: DeadlineName, now: Now) -> Decision:
        """A deadline has passed."""
        turn = Turn(self, now)
        what, group_id, member_id = name
        if name == TIDY_UP:
            self.deadlines.set(TIDY_UP, now.steady_ms + self.settings.retention_check_interval_ms)
            tidy_up(turn, list(self.groups))
            return turn.decision
        group = self.groups.get(group_id)
        if group is None:
            return turn.decision
        if what == "session":
            session_is_over(turn, group, member_id)
        elif what == "join":
            join_time_is_up(turn, group)
        else:
            assert what == "sync", name
            sync_time_is_up(turn, group)
        return turn.decision
