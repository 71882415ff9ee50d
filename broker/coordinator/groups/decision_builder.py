"""`DecisionBuilder`: collects the records and replies of one decision, and provides the state and the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikafka.broker.coordinator.decision import Decision, Now, Ticket
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.shard_state import MEMBER_DEADLINES, ShardState
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue


class DecisionBuilder:
    """Collects the result of one decision. It is passed to every step of a group's state machine.

    Attributes:
        state: The shard's state. Only fields that are not in the log may be changed directly.
        now: The time of this decision.
        decision: The result, for the runtime.
    """

    __slots__ = ("decision", "now", "state")

    def __init__(self, state: ShardState, now: Now) -> None:
        self.state = state
        self.now = now
        self.decision = Decision()

    def answer(self, ticket: Ticket, reply: Any) -> None:
        """Answer the current request, or an earlier one that is waiting."""
        self.decision.replies.append((ticket, reply))

    def write(self, key: Any, value: Any | None) -> None:
        """Append a record to the decision; a value of None is a tombstone."""
        self.decision.records.append((key, value))

    def write_group(self, group: ClassicGroup, value: GroupMetadataValue) -> None:
        """Append the group's new record; the group changes when the record is applied."""
        self.write(GroupMetadataKey(group=group.group_id), value)

    def follow(
        self,
        then: Callable[[DecisionBuilder], None] | None = None,
        refused: Callable[[DecisionBuilder, KafkaError], None] | None = None,
    ) -> None:
        """Set the next step: `then` after the records were applied, `refused` after the append failed."""
        assert self.decision.then is None, "the next step is already set"
        assert self.decision.refused is None, "the next step is already set"
        if then is not None:
            self.decision.then = lambda: self._next(then)
        if refused is not None:
            self.decision.refused = lambda error: self._next(lambda builder: refused(builder, error))

    def _next(self, step: Callable[[DecisionBuilder], None]) -> Decision:
        builder = DecisionBuilder(self.state, self.now)
        step(builder)
        return builder.decision

    def discard(self) -> None:
        """Drop the records: the request is refused. Replies to other requests stay."""
        self.decision = Decision(replies=self.decision.replies)

    # -- deadlines -----------------------------------------------------------------------------------------------

    def schedule_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Start or restart a member's session: it expires in `timeout_ms`."""
        self.state.deadlines.set(("session", group.group_id, member_id), self.now.steady_ms + timeout_ms)

    def cancel_session(self, group: ClassicGroup, member_id: str) -> None:
        self.state.deadlines.cancel(("session", group.group_id, member_id))

    def schedule(self, phase: str, group: ClassicGroup, timeout_ms: int) -> None:
        """Set the timeout of the group's "join" or "sync" phase."""
        self.state.deadlines.set((phase, group.group_id, ""), self.now.steady_ms + timeout_ms)

    def cancel(self, phase: str, group: ClassicGroup) -> None:
        self.state.deadlines.cancel((phase, group.group_id, ""))

    def schedule_member(self, kind: str, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Start or restart a timeout of a consumer group's member; see `shard_state.DeadlineName`."""
        self.state.deadlines.set((kind, group_id, member_id), self.now.steady_ms + timeout_ms)

    def cancel_member(self, group_id: str, member_id: str, *kinds: str) -> None:
        """Cancel timeouts of a consumer group's member; all of them if no kind is given."""
        for kind in kinds or MEMBER_DEADLINES:
            self.state.deadlines.cancel((kind, group_id, member_id))
