"""Which connections keep a request waiting for longer than is usual. Pure.

A broker that is stopped or cut off answers nothing, and its connections stay open: only its silence tells. Looked at in
regular intervals, a connection whose oldest request is the same several times in a row is *stalled*. That proves
nothing (acks may be slow, a fetch may wait for records), so it is only a reason to ask others how the cluster is.
"""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.client.connections.connection import Connection

LOOKS = 5
"""So often the same request must be the oldest one."""
LOOKS_WHERE_BROKERS_WAIT = 15
"""The same for connections of fetches and groups, which brokers hold back on purpose for a while."""


class Stalls:
    """What was seen of each connection."""

    def __init__(self) -> None:
        self._seen: dict[Connection, tuple[int, int]] = {}
        self._stalled: dict[Connection, None] = {}

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._stalled

    def look(self, connections: Iterable[tuple[str, Connection]]) -> bool:
        """One more look at all open connections, each with its purpose; whether there is reason to ask others.

        More and more seldom where brokers may hold requests back: they are mostly right to.
        """
        seen: dict[Connection, tuple[int, int]] = {}
        stalled: dict[Connection, None] = {}
        ask = False
        for purpose, connection in connections:
            oldest = connection.oldest
            before, looks = self._seen.get(connection, (0, 0))
            looks = looks + 1 if oldest and oldest == before else 0
            seen[connection] = (oldest, looks)
            limit = LOOKS_WHERE_BROKERS_WAIT if purpose else LOOKS
            if looks >= limit:
                stalled[connection] = None
                ask = ask or not purpose or _is_power_of_two(looks / limit)
        self._seen, self._stalled = seen, stalled
        return ask


def _is_power_of_two(number: float) -> bool:
    return number.is_integer() and int(number) & (int(number) - 1) == 0
