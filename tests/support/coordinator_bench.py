"""The group coordinator's state machine without runtime and trio; tests advance the time.

`Bench` executes decisions as the runtime does, over a log that is a list. `crash` rebuilds the state from that list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from minikafka.broker.coordinator.decision import Decision, Now
from minikafka.broker.coordinator.groups.classic.classic_join import join_group
from minikafka.broker.coordinator.groups.classic.classic_sync import sync_group
from minikafka.broker.coordinator.groups.classic.heartbeat_and_leave import heartbeat, leave_group
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.broker.coordinator.groups.group_shard import GroupShard
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.classic_member import Caller
from minikafka.broker.coordinator.groups.state.group_records import decode_record, encode_record
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from minikafka.storage.steps import at_once

CLOCK_MS = 1_700_000_000_000
NO_DELAY = GroupSettings(initial_rebalance_delay_ms=0)
GROUP = "g"


class Bench:
    """One coordinator over one log.

    Attributes:
        clock_ms: The wall clock at the beginning; another value sets the clock.
        log: (key, value, producer id) of every record, encoded; ("end", producer id, committed) of every marker.
        replies: By ticket.
        refusal: The error of the next append, once.
    """

    def __init__(self, settings: GroupSettings = NO_DELAY, seed: int = 0) -> None:
        self.settings = settings
        self.random = Random(seed)
        self.elapsed_ms = 0
        self.clock_ms = CLOCK_MS
        self.log: list[Any] = []
        self.replies: dict[Any, Any] = {}
        self.refusal: KafkaError | None = None
        self.state = self.new_state()
        self._tickets = 0
        self.carry_out_all(self.state.loaded(self.now))

    @property
    def now(self) -> Now:
        return Now(self.clock_ms + self.elapsed_ms, 5_000 + self.elapsed_ms)

    def new_state(self) -> GroupShard:
        return GroupShard(self.settings, self.random, Image())

    def group(self, group_id: str = GROUP) -> ClassicGroup:
        return self.state.classic_groups[group_id]

    # -- what the runtime does -------------------------------------------------------------------------------

    def do(self, step: Callable[[DecisionBuilder, Any], None]) -> Any:
        """Make and execute a decision; returns the ticket, whose reply may be pending."""
        self._tickets += 1
        ticket = self._tickets
        builder = DecisionBuilder(self.state, self.now)
        step(builder, ticket)
        self.carry_out(builder.decision)
        return ticket

    def ask(self, step: Callable[[DecisionBuilder, Any], None]) -> Any:
        """Make and execute a decision; returns the reply, which must not be pending."""
        return self.replies[self.do(step)]

    def carry_out(self, decision: Decision | None) -> None:
        while decision is not None:
            refusal = self.refusal if decision.records else None
            if refusal is not None:
                self.refusal = None
                assert decision.refused is not None, "these tests refuse only what can be refused"
                decision = decision.refused(refusal)
                continue
            producer = -1 if decision.producer is None else decision.producer.producer_id
            for key, value in decision.records:
                self.log.append((*encode_record(key, value), producer))
                self._apply(self.state, *self.log[-1], len(self.log) - 1)
            for ticket, reply in decision.replies:
                assert ticket not in self.replies, "nobody is answered twice"
                self.replies[ticket] = reply
            decision = decision.then() if decision.then else None

    def carry_out_all(self, decisions: Decision | Iterable[Decision]) -> None:
        for decision in (decisions,) if isinstance(decisions, Decision) else decisions:
            self.carry_out(decision)

    def pass_time(self, elapsed_ms: int) -> None:
        """Advance the time; deadlines fire in order, each at its time."""
        until = self.elapsed_ms + elapsed_ms
        deadlines = self.state.deadlines
        while (at_ms := deadlines.next_ms()) is not None and at_ms - 5_000 <= until:
            self.elapsed_ms = max(self.elapsed_ms, at_ms - 5_000)
            while (name := deadlines.pop(self.now.steady_ms)) is not None:
                self.carry_out_all(self.state.expire(name, self.now))
        self.elapsed_ms = until

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.log.append(("end", producer_id, committed))
        at_once(self.state.end_transaction(producer_id, committed=committed))

    @staticmethod
    def _apply(state: GroupShard, key: bytes, value: bytes | None, producer: int, offset: int) -> None:
        known = decode_record(key, value)
        assert known is not None
        state.apply(*known, offset, producer)

    def reloaded(self, keep: Callable[[int], bool] = lambda offset: True) -> GroupShard:
        """A new state from the log; `keep` drops what compaction has removed."""
        state = self.new_state()
        for offset, entry in enumerate(self.log):
            if entry[0] == "end":
                at_once(state.end_transaction(entry[1], committed=entry[2]))
            elif keep(offset):
                self._apply(state, *entry, offset)
        return state

    def crash(self) -> None:
        """Another coordinator takes over."""
        self.state = self.reloaded()
        self.carry_out_all(self.state.loaded(self.now))

    # -- requests --------------------------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        version: int = 3,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"m"),),
        session_ms: int = 10_000,
        rebalance_ms: int = 10_000,
        group: str = GROUP,
        protocol_type: str = "consumer",
        client: str = "client",
    ) -> Any:
        """Send JoinGroup; returns the ticket. Version 3 adds new members at once, version 4 assigns an id first."""
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
        )
        return self.do(lambda builder, ticket: join_group(builder, request, Caller(client, "/host", version), ticket))

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        group: str = GROUP,
    ) -> Any:
        """Send SyncGroup; returns the ticket."""
        request = SyncGroupRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        request.assignments = [
            SyncGroupRequestAssignment(member_id=name, assignment=data) for name, data in (assignments or {}).items()
        ]
        return self.do(lambda builder, ticket: sync_group(builder, request, ticket))

    def heartbeat(
        self, member_id: str, generation: int, *, instance: str | None = None, group: str = GROUP
    ) -> int:
        """Send Heartbeat; returns the error code."""
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self.ask(lambda builder, ticket: heartbeat(builder, request, ticket)).error_code

    def leave(self, *member_ids: str, instance: str | None = None, group: str = GROUP) -> Any:
        """Send LeaveGroup; returns the response."""
        request = LeaveGroupRequest(group_id=group)
        request.members = [MemberIdentity(member_id=name, group_instance_id=instance) for name in member_ids]
        return self.ask(lambda builder, ticket: leave_group(builder, request, ticket))

    def member(self, session_ms: int = 10_000, rebalance_ms: int = 10_000) -> str:
        """The only member of a new, stable group."""
        reply = self.replies[self.join(session_ms=session_ms, rebalance_ms=rebalance_ms)]
        self.sync(reply.member_id, reply.generation_id, {reply.member_id: b"all"})
        assert str(self.group().state) == "Stable"
        return reply.member_id
