"""Detects connections whose oldest request has waited for unusually long. Pure.

A broker that is stopped or partitioned away sends nothing while its connections stay open. A connection whose oldest
request is the same in several consecutive checks is *stalled*. That is no proof of a failure (acks may be slow, a fetch
may wait for records), so it only causes a metadata request to other brokers.
"""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.client.connections.connection import Connection

CHECKS = 5
"""A connection is stalled when the same request is the oldest in this many consecutive checks."""
CHECKS_WHERE_BROKERS_WAIT = 15
"""The same for fetch and group connections, where brokers delay responses on purpose."""


class StalledRequests:
    """The oldest request of each connection and how often it was seen."""

    def __init__(self) -> None:
        self._seen: dict[Connection, tuple[int, int]] = {}
        self._stalled: dict[Connection, None] = {}

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._stalled

    def check(self, connections: Iterable[tuple[str, Connection]]) -> bool:
        """Check all open connections, each with its purpose; return whether to request metadata.

        For connections on which brokers may delay responses the result is True at exponentially growing intervals.
        """
        seen: dict[Connection, tuple[int, int]] = {}
        stalled: dict[Connection, None] = {}
        refresh = False
        for purpose, connection in connections:
            oldest = connection.oldest
            before, checks = self._seen.get(connection, (0, 0))
            checks = checks + 1 if oldest and oldest == before else 0
            seen[connection] = (oldest, checks)
            limit = CHECKS_WHERE_BROKERS_WAIT if purpose else CHECKS
            if checks >= limit:
                stalled[connection] = None
                refresh = refresh or not purpose or _is_power_of_two(checks / limit)
        self._seen, self._stalled = seen, stalled
        return refresh


def _is_power_of_two(number: float) -> bool:
    return number.is_integer() and int(number) & (int(number) - 1) == 0
