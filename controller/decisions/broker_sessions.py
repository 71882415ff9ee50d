"""Broker sessions: when the session of each broker expires, and how much of the metadata log the broker has applied.

Broker sessions are soft state of the active controller and not in the metadata log. Pure. A broker without contact for
a session timeout is fenced (`decisions/broker_fencing.py`). A new active controller gives every broker a full session.
Times are milliseconds of one monotonic clock. Source: `BrokerHeartbeatManager`, `BrokerHeartbeatTracker`.

Calls by `active_controller.py`::

    a heartbeat arrives              contact()          before it is queued: a busy controller must not fence brokers
                                                        whose heartbeats wait in its queue (KAFKA-15019)
    a connection is reset            lost_connection()  shortens the session: the process is probably dead
    a registration or a heartbeat    wrote()            once its records are committed, with the offset after them
    the timer, at `deadline_ms`      expired()          those that are not fenced yet go to broker_fencing.py
    this node was elected            reset()
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from minikafka.protocol.settings.registry import NODE_SETTINGS

__all__ = ["LOST_CONNECTION_MS", "BrokerSessions"]

SESSION_TIMEOUT_MS = NODE_SETTINGS["broker.session.timeout.ms"].default_number
LOST_CONNECTION_MS = 300
"""The time in which a broker must make contact again after its connection was reset."""


@dataclass(slots=True)
class _Session:
    """The session of one broker.

    Attributes:
        epoch: the broker epoch that the session belongs to.
        deadline_ms: the time at which the session expires.
        applied: the broker has applied the metadata log before this offset; -1 if it has not reported one.
        awaited: the offset after the last records about the broker itself.
    """

    epoch: int
    deadline_ms: int
    applied: int = -1
    awaited: int = 0


class BrokerSessions:
    """The sessions of all brokers.

    Args:
        session_timeout_ms: `broker.session.timeout.ms`.
        lost_connection_ms: what remains of a session after the broker's connection was reset.
    """

    def __init__(
        self, session_timeout_ms: int = SESSION_TIMEOUT_MS, lost_connection_ms: int = LOST_CONNECTION_MS
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._lost_connection_ms = min(lost_connection_ms, session_timeout_ms)
        self._sessions: dict[int, _Session] = {}

    def contact(self, node_id: int, epoch: int, now_ms: int, applied_offset: int = -1) -> None:
        """Extend the broker's session. A contact with an older broker epoch is ignored."""
        session = self._sessions.get(node_id)
        if session is None or session.epoch < epoch:
            awaited = session.awaited if session else 0
            session = self._sessions[node_id] = _Session(epoch, now_ms, awaited=awaited)
        if session.epoch == epoch:
            session.deadline_ms = now_ms + self.session_timeout_ms
            session.applied = max(session.applied, applied_offset)

    def lost_connection(self, node_id: int, now_ms: int) -> None:
        """Shorten the session of a broker whose connection was reset."""
        session = self._sessions.get(node_id)
        if session is not None:
            session.deadline_ms = min(session.deadline_ms, now_ms + self._lost_connection_ms)

    def wrote(self, node_id: int, epoch: int, now_ms: int, end_offset: int) -> None:
        """Record that records about a broker (registration, leader changes) are committed and end at `end_offset`."""
        self.contact(node_id, epoch, now_ms)
        self._sessions[node_id].awaited = end_offset

    def reset(self, now_ms: int, epochs: Mapping[int, int], end_offset: int) -> None:
        """Start a full session for every registered broker, because this node was elected.

        Args:
            now_ms: the time.
            epochs: broker epoch by node id, of all registered brokers.
            end_offset: the end of the metadata log at the election, which each broker must catch up with.
        """
        deadline_ms = now_ms + self.session_timeout_ms
        self._sessions = {
            node_id: _Session(epoch, deadline_ms, awaited=end_offset) for node_id, epoch in epochs.items()
        }

    def forget(self, node_id: int) -> None:
        """Drop the session of an unregistered broker."""
        self._sessions.pop(node_id, None)

    def is_live(self, node_id: int, epoch: int, now_ms: int) -> bool:
        """Whether this registration of a broker has an unexpired session."""
        session = self._sessions.get(node_id)
        return session is not None and session.epoch == epoch and now_ms < session.deadline_ms

    def expired(self, now_ms: int) -> list[int]:
        """All brokers with an expired session, fenced or not, ordered by id."""
        return sorted(node_id for node_id, session in self._sessions.items() if session.deadline_ms <= now_ms)

    def deadline_ms(self, node_ids: Iterable[int]) -> int | None:
        """The time in milliseconds at which the first of these brokers' sessions expires; None without sessions."""
        known = (self._sessions[node_id].deadline_ms for node_id in node_ids if node_id in self._sessions)
        return min(known, default=None)

    def applied(self, node_id: int) -> int:
        """The offset before which a broker has reported to have applied the metadata log; -1 without a report."""
        session = self._sessions.get(node_id)
        return -1 if session is None else session.applied

    def is_caught_up(self, node_id: int, applied_offset: int) -> bool:
        """Whether a broker that has applied everything before `applied_offset` knows its own registration."""
        session = self._sessions.get(node_id)
        return session is None or applied_offset >= session.awaited

    def others_caught_up(self, node_id: int, others: Iterable[int]) -> bool:
        """Whether all brokers in `others` have applied the last records about a broker."""
        session = self._sessions.get(node_id)
        awaited = 0 if session is None else session.awaited
        return all(self.applied(other) >= awaited for other in others if other != node_id)
