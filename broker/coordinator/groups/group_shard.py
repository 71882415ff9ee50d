"""`GroupShard`: the state machine of one partition of `__consumer_offsets`, which the coordinator runtime drives.

Source: Kafka's `GroupCoordinatorShard`.
"""

from __future__ import annotations

from collections.abc import Generator

from minikafka.broker.coordinator.decision import Decision, Now
from minikafka.broker.coordinator.groups.classic.heartbeat_and_leave import session_expired
from minikafka.broker.coordinator.groups.classic.rebalance import join_timed_out, prepare_rebalance, sync_timed_out
from minikafka.broker.coordinator.groups.consumer.leaving import member_timed_out, schedule_after_loading
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.offsets.removal_in_steps import clean_up_expired
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.group_records import decode_record, encode_record
from minikafka.broker.coordinator.groups.state.shard_state import DeadlineName, ShardState

CLEANUP: DeadlineName = ("offsets", "", "")
MEMBERS_IN_A_STEP = 2_000
"""The number of members whose sessions are started before other tasks run; about 5 ms."""


class GroupShard(ShardState):
    """A `ShardState` with its record format and its deadlines; a `runtime.CoordinatorState`."""

    last_record_counts = True
    encode = staticmethod(encode_record)
    decode = staticmethod(decode_record)

    def loaded(self, now: Now) -> Generator[Decision, None, None]:
        """Start all session deadlines after the log was replayed. Groups above `group.max.size` rebalance."""
        self.deadlines.set(CLEANUP, now.steady_ms + self.settings.retention_check_interval_ms)
        members = 0
        groups: list[ClassicGroup | ConsumerGroup] = [*self.classic_groups.values(), *self.consumer_groups.values()]
        for group in groups:
            builder = DecisionBuilder(self, now)
            if isinstance(group, ClassicGroup):
                _schedule_classic(builder, group)
            else:
                schedule_after_loading(builder, group)
            members += 1 + len(group.members)
            if members >= MEMBERS_IN_A_STEP or builder.decision != Decision():
                yield builder.decision
                members = 0

    def expire(self, name: DeadlineName, now: Now) -> Decision | Generator[Decision, None, None]:
        """Decide the consequences of a deadline that has passed."""
        if name == CLEANUP:
            return self._clean_up(now)
        builder = DecisionBuilder(self, now)
        kind, group_id, member_id = name
        if (consumer_group := self.consumer_groups.get(group_id)) is not None:
            member_timed_out(builder, consumer_group, kind, member_id)
        elif (group := self.classic_groups.get(group_id)) is not None:
            _expire_classic(builder, group, kind, member_id)
        return builder.decision

    def _clean_up(self, now: Now) -> Generator[Decision, None, None]:
        try:
            yield from clean_up_expired(self, now)
        finally:
            self.deadlines.set(CLEANUP, now.steady_ms + self.settings.retention_check_interval_ms)


def _schedule_classic(builder: DecisionBuilder, group: ClassicGroup) -> None:
    for member in group.members.values():
        builder.schedule_session(group, member.member_id, member.session_timeout_ms)
    if len(group.members) > builder.state.settings.group_size_max:
        prepare_rebalance(builder, group)


def _expire_classic(builder: DecisionBuilder, group: ClassicGroup, kind: str, member_id: str) -> None:
    if kind == "session":
        session_expired(builder, group, member_id)
    elif kind == "join" and not member_id:
        join_timed_out(builder, group)
    elif kind == "sync" and not member_id:
        sync_timed_out(builder, group)
