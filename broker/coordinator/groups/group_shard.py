"""GroupShard: the state machine that the runtime loads, drives and wakes for one partition of `__consumer_offsets`.

Source: Kafka's `GroupCoordinatorShard`.
"""

from __future__ import annotations

from minikafka.broker.coordinator.decision import Decision, Now
from minikafka.broker.coordinator.groups.classic.heartbeat_and_leave import session_expired
from minikafka.broker.coordinator.groups.classic.rebalance import join_timed_out, prepare_rebalance, sync_timed_out
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.offsets.offset_expiry import clean_up_expired
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
        for group in self.groups.values():
            builder = DecisionBuilder(self, now)
            for member in group.members.values():
                builder.schedule_session(group, member.member_id, member.session_timeout_ms)
            if len(group.members) > self.settings.group_size_max:
                prepare_rebalance(builder, group)
                decisions.append(builder.decision)
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
            clean_up_expired(builder, list(self.groups))
            return builder.decision
        group = self.groups.get(group_id)
        if group is None:
            return builder.decision
        if kind == "session":
            session_expired(builder, group, member_id)
        elif kind == "join":
            join_timed_out(builder, group)
        else:
            assert kind == "sync", name
            sync_timed_out(builder, group)
        return builder.decision
