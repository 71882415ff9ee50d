"""One decision in the making: the state it is made from, the time, and what has been decided so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minikafka.broker.coordinator.decision import Decision, Now, Ticket
from minikafka.broker.coordinator.groups.group import ClassicGroup
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue

if TYPE_CHECKING:
    from minikafka.broker.coordinator.groups.shard_state import GroupsState

RECORDS_MAX = 2_000
"""Tombstones that are written at once where there may be many; the rest follows in further batches."""

DeadlineName = tuple[str, str, str]
"""(what, group id, member id): "session" of a member; "join" and "sync" of a group; "offsets" of all."""


class Turn:
    """What every step of a group's state machine is handed.

    Attributes:
        state: The coordinator's. What the log does not know of it may be changed right away.
        now: The time of this decision.
        decision: What is handed back to the runtime.
    """

    __slots__ = ("decision", "now", "state")

    def __init__(self, state: GroupsState, now: Now) -> None:
        self.state = state
        self.now = now
        self.decision = Decision()

    def answer(self, ticket: Ticket, reply: Any) -> None:
        """Answer a request, this one or one that waited."""
        self.decision.replies.append((ticket, reply))

    def write(self, key: Any, value: Any | None) -> None:
        """Write a record; None is a tombstone."""
        self.decision.records.append((key, value))

    def write_group(self, group: ClassicGroup, value: GroupMetadataValue) -> None:
        """Write what the group is from now on; applying it makes it so."""
        self.write(GroupMetadataKey(group=group.group_id), value)

    def follow(
        self, then: Callable[[Turn], None] | None = None, refused: Callable[[Turn, KafkaError], None] | None = None
    ) -> None:
        """Go on once the records are applied, or after the log refused them."""
        assert self.decision.then is None, "one thing follows another"
        assert self.decision.refused is None, "one thing follows another"
        if then is not None:
            self.decision.then = lambda: self._next(then)
        if refused is not None:
            self.decision.refused = lambda error: self._next(lambda turn: refused(turn, error))

    def _next(self, step: Callable[[Turn], None]) -> Decision:
        turn = Turn(self.state, self.now)
        step(turn)
        return turn.decision

    # -- deadlines -----------------------------------------------------------------------------------------------

    def schedule_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Remove the member if it is not heard of within `timeout_ms` from now."""
        self.state.deadlines.set(("session", group.group_id, member_id), self.now.steady_ms + timeout_ms)

    def cancel_session(self, group: ClassicGroup, member_id: str) -> None:
        self.state.deadlines.cancel(("session", group.group_id, member_id))

    def schedule(self, what: str, group: ClassicGroup, timeout_ms: int) -> None:
        """Have the group's "join" or "sync" phase end in `timeout_ms`."""
        self.state.deadlines.set((what, group.group_id, ""), self.now.steady_ms + timeout_ms)

    def cancel(self, what: str, group: ClassicGroup) -> None:
        self.state.deadlines.cancel((what, group.group_id, ""))
