"""Who was heard of when: the active controller's soft state about brokers. Pure; no record tells it.

A broker that was not heard of for a session is fenced (`decisions/fencing.py`). Whoever becomes the active controller
knows nothing of this and gives every broker a whole session (`reset`). Times are milliseconds of one clock that never
goes back. Source: `BrokerHeartbeatManager`, `BrokerHeartbeatTracker`.

How the controller's shell uses it::

    a heartbeat comes in             contact()          before it waits in the queue (TRAPS 28: a busy controller
                                                        fences nobody)
    a connection is reset            lost_connection()  nobody waits a whole session for a process that is dead
    a registration or a heartbeat    wrote()            once its records are committed, with the offset after them
    the timer, at `deadline_ms`      expired()          and for those that are not fenced yet: decisions/fencing.py
    this node was elected            reset()
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from minikafka.protocol.settings.registry import NODE_SETTINGS

__all__ = ["LOST_CONNECTION_MS", "Sessions"]

SESSION_TIMEOUT_MS = NODE_SETTINGS["broker.session.timeout.ms"].default_number
LOST_CONNECTION_MS = 300
"""How long a broker has to come back whose connection was reset."""


@dataclass(slots=True)
class _Session:
    """What is known of one broker.

    Attributes:
        epoch: of the registration that it speaks for.
        applied: it has applied all of the metadata log before this offset; -1 where it never said.
        awaited: the offset after the last records about itself.
    """

    epoch: int
    deadline_ms: int
    applied: int = -1
    awaited: int = 0


class Sessions:
    """One session for each broker that was heard of.

    Args:
        session_timeout_ms: `broker.session.timeout.ms`.
        lost_connection_ms: what is left of a session after its connection was reset.
    """

    def __init__(
        self, session_timeout_ms: int = SESSION_TIMEOUT_MS, lost_connection_ms: int = LOST_CONNECTION_MS
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._lost_connection_ms = min(lost_connection_ms, session_timeout_ms)
        self._sessions: dict[int, _Session] = {}

    def contact(self, node_id: int, epoch: int, now_ms: int, applied_offset: int = -1) -> None:
        """The broker was heard of. What an older registration of its says does not count."""
        session = self._sessions.get(node_id)
        if session is None or session.epoch < epoch:
            awaited = session.awaited if session else 0
            session = self._sessions[node_id] = _Session(epoch, now_ms, awaited=awaited)
        if session.epoch == epoch:
            session.deadline_ms = now_ms + self.session_timeout_ms
            session.applied = max(session.applied, applied_offset)

    def lost_connection(self, node_id: int, now_ms: int) -> None:
        """The broker's connection was reset: it has little time to come back."""
        session = self._sessions.get(node_id)
        if session is not None:
            session.deadline_ms = min(session.deadline_ms, now_ms + self._lost_connection_ms)

    def wrote(self, node_id: int, epoch: int, now_ms: int, end_offset: int) -> None:
        """Records about a broker (it registered, its leaders moved) are committed, and end here."""
        self.contact(node_id, epoch, now_ms)
        self._sessions[node_id].awaited = end_offset

    def reset(self, now_ms: int, epochs: Mapping[int, int], end_offset: int) -> None:
        """This node leads now: every registered broker has a new session, and something to catch up with.

        Args:
            now_ms: the time.
            epochs: broker epoch by node id, of all that are registered.
            end_offset: where the log ended when it was elected.
        """
        deadline_ms = now_ms + self.session_timeout_ms
        self._sessions = {
            node_id: _Session(epoch, deadline_ms, awaited=end_offset) for node_id, epoch in epochs.items()
        }

    def forget(self, node_id: int) -> None:
        """The broker was unregistered."""
        self._sessions.pop(node_id, None)

    def is_live(self, node_id: int, epoch: int, now_ms: int) -> bool:
        """Whether this registration of a broker was heard of within a session."""
        session = self._sessions.get(node_id)
        return session is not None and session.epoch == epoch and now_ms < session.deadline_ms

    def expired(self, now_ms: int) -> list[int]:
        """All whose session is over, fenced or not, in order of their ids."""
        return sorted(node_id for node_id, session in self._sessions.items() if session.deadline_ms <= now_ms)

    def deadline_ms(self, node_ids: Iterable[int]) -> int | None:
        """When the first of these brokers' sessions ends; None where none has one."""
        known = (self._sessions[node_id].deadline_ms for node_id in node_ids if node_id in self._sessions)
        return min(known, default=None)

    def applied(self, node_id: int) -> int:
        """All before this offset the broker has applied, as far as it said; -1 where it said nothing."""
        session = self._sessions.get(node_id)
        return -1 if session is None else session.applied

    def is_caught_up(self, node_id: int, applied_offset: int) -> bool:
        """Whether a broker that has applied so much knows of its own registration."""
        session = self._sessions.get(node_id)
        return session is None or applied_offset >= session.awaited

    def others_caught_up(self, node_id: int, others: Iterable[int]) -> bool:
        """Whether all others have applied the last records about a broker."""
        session = self._sessions.get(node_id)
        awaited = 0 if session is None else session.awaited
        return all(self.applied(other) >= awaited for other in others if other != node_id)
