"""GroupShard: the state machine that the runtime loads, drives and wakes for one partition of `__consumer_offsets`.

Source: Kafka's `GroupCoordinatorShard`.
"""

from __future__ import annotations

from minikafka.broker.coordinator.decision import Decision, Now
from minikafka.broker.coordinator.groups.classic.heartbeat_and_leave import session_expired
from minikafka.broker.coordinator.groups.classic.rebalance import join_timed_out, prepare_rebalance, sync_timed_out
from minikafka.broker.coordinator.groups.consumer.leaving import member_timed_out, schedule_after_loading
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.offsets.offset_expiry import clean_up_expired
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.group_records import decode_record, encode_record
from minikafka.broker.coordinator.groups.state.shard_state import DeadlineName, ShardState

CLEANUP: DeadlineName = ("offsets", "", "")


class GroupShard(ShardState):
    """A `ShardState` with its record format and its deadlines; a `runtime.CoordinatorState`."""

    last_record_counts = True
    encode = staticmethod(encode_record)
    decode = staticmethod(decode_record)

    def loaded(self, now: Now) -> list[Decision]:
        """Start all session deadlines after the log was replayed. Groups above `group.max.size` rebalance."""
        self.deadlines.set(CLEANUP, now.steady_ms + self.settings.retention_check_interval_ms)
        decisions: list[Decision] = []
        for group in self.classic_groups.values():
            builder = DecisionBuilder(self, now)
            for member in group.members.values():
                builder.schedule_session(group, member.member_id, member.session_timeout_ms)
            if len(group.members) > self.settings.group_size_max:
                prepare_rebalance(builder, group)
                decisions.append(builder.decision)
        for consumer_group in self.consumer_groups.values():
            schedule_after_loading(DecisionBuilder(self, now), consumer_group)
        return decisions

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline, on the steady clock."""
        return self.deadlines.next_ms()

    def due(self, now: Now) -> list[DeadlineName]:
        """Remove and return the deadlines that have passed; the runtime passes each to `expire`."""
        return self.deadlines.due(now.steady_ms)

    def expire(self, name: DeadlineName, now: Now) -> Decision:
        """Decide the consequences of a deadline that has passed."""
        builder = DecisionBuilder(self, now)
        kind, group_id, member_id = name
        if name == CLEANUP:
            self.deadlines.set(CLEANUP, now.steady_ms + self.settings.retention_check_interval_ms)
            clean_up_expired(builder, [group.group_id for group in self.groups()])
        elif (consumer_group := self.consumer_groups.get(group_id)) is not None:
            member_timed_out(builder, consumer_group, kind, member_id)
        elif (group := self.classic_groups.get(group_id)) is not None:
            _expire_classic(builder, group, kind, member_id)
        return builder.decision


def _expire_classic(builder: DecisionBuilder, group: ClassicGroup, kind: str, member_id: str) -> None:
    if kind == "session":
        session_expired(builder, group, member_id)
    elif kind == "join" and not member_id:
        join_timed_out(builder, group)
    elif kind == "sync" and not member_id:
        sync_timed_out(builder, group)
