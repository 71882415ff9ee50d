"""`BrokerLease`: the time in which no other broker can have been elected in the place of this one.

The active controller fences a broker after `broker.session.timeout.ms` without contact, and lets others lead its
partitions. A broker that was paused, or cut off from the controllers, does not know it: it goes on with what it had
been asked before. What it writes is not committed, since its followers have gone over to the new leader, but what it
answers from its memory may be out of date. So a broker asks its lease where an outdated answer does harm. The lease
ends a session timeout after a contact that the active controller confirmed, counted from when the contact was sent, so
before the session does. A new active controller gives every broker a full session.

Leadership that is moved while the broker is in contact (an election of preferred leaders, a reassignment) is not
covered: the broker learns of it by the metadata. Source: leases in *Leases: An Efficient Fault-Tolerant Mechanism for
Distributed File Cache Consistency* (Gray, Cheriton). Apache Kafka has none.
"""

from collections.abc import Awaitable, Callable, Mapping
from math import inf
from typing import Any

import trio

from minikafka.controller.quorum.handshake import ConnectionLost
from minikafka.controller.quorum.peers import Unreachable

__all__ = ["BrokerLease", "contact_answer"]


def contact_answer(*, confirmed: bool) -> dict[str, Any]:
    """Return the response to the contact of a broker: confirmed if the broker is live, and this controller active.

    Earlier versions answer every contact in the same way, as confirmed.
    """
    return {} if confirmed else {"confirmed": False}


class BrokerLease:
    """Reports this broker's contact to the active controller on another node.

    Args:
        request: sends a request to a node, see `Peers.request`.
        session_s: `broker.session.timeout.ms`, in seconds.
        timeout_s: how long to wait for the response, in seconds.
    """

    def __init__(
        self,
        request: Callable[[int, str, Mapping[str, Any]], Awaitable[dict[str, Any]]],
        session_s: float,
        timeout_s: float,
    ) -> None:
        self._request = request
        self._session_s = session_s
        self._timeout_s = timeout_s
        self._confirmed_by, self._ends_at = -1, -inf

    @property
    def holds(self) -> bool:
        """Whether the lease has not ended."""
        return trio.current_time() < self._ends_at

    async def report(self, leader: int, body: Mapping[str, Any]) -> bool:
        """Report contact to the node of the active controller; returns whether it responded."""
        sent_at = trio.current_time()
        with trio.move_on_after(self._timeout_s):
            try:
                response = await self._request(leader, "applied", body)
            except (Unreachable, ConnectionLost):
                return False
            if not response:
                self._confirmed_by, self._ends_at = leader, sent_at + self._session_s
            return True
        return False

    def lost(self, node_id: int) -> None:
        """End the lease if the connection to the node that confirmed it ended: that may shorten the session."""
        if node_id == self._confirmed_by:
            self._ends_at = -inf
