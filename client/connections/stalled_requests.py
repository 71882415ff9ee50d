"""Detects connections whose oldest request has waited for unusually long. Pure.

A broker that is stopped or partitioned away sends nothing while its connections stay open. A connection whose oldest
request has been the same for a while is *stalled*. That is no proof of a failure (acks may be slow, a fetch may wait
for records), so it only causes a metadata request to other brokers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from minikafka.client.connections.connection import Connection

PATIENCE_S = 0.5
"""A connection is stalled when the same request has been the oldest for this long."""
PATIENCE_WHERE_BROKERS_WAIT_S = 1.5
"""`PATIENCE_S` for fetch and group connections, where brokers delay responses on purpose."""


class _Oldest(NamedTuple):
    """The oldest request of a connection: its correlation id, when it was first seen, how often it caused a refresh."""

    request: int
    since: float
    refreshes: int


class StalledRequests:
    """The oldest request of each connection, and the time since it is the oldest, in seconds on the caller's clock."""

    def __init__(self) -> None:
        self._seen: dict[Connection, _Oldest] = {}
        self._stalled: dict[Connection, None] = {}

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._stalled

    def check(self, connections: Iterable[tuple[str, Connection]], now: float) -> bool:
        """Check all open connections, each with its purpose; return whether to request metadata.

        A stalled connection causes a request every `PATIENCE_S`, and at exponentially growing intervals if brokers may
        delay responses on it.
        """
        seen: dict[Connection, _Oldest] = {}
        stalled: dict[Connection, None] = {}
        refresh = False
        for purpose, connection in connections:
            oldest = self._seen.get(connection)
            if oldest is None or not connection.oldest or connection.oldest != oldest.request:
                oldest = _Oldest(connection.oldest, now, 0)
            patience_s = PATIENCE_WHERE_BROKERS_WAIT_S if purpose else PATIENCE_S
            if oldest.request and now - oldest.since >= patience_s:
                stalled[connection] = None
                patiences = (1 << oldest.refreshes) if purpose else oldest.refreshes + 1
                if now - oldest.since >= patience_s * patiences:
                    refresh = True
                    oldest = oldest._replace(refreshes=oldest.refreshes + 1)
            seen[connection] = oldest
        self._seen, self._stalled = seen, stalled
        return refresh
