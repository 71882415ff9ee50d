"""`LostConnections`: the nodes that are probably dead, since they closed or refused a connection a short time ago."""

from collections.abc import Iterator

import trio

RECENTLY_S = 2.0
"""Connections that were lost longer ago were not lost because of the end of the last leader."""


class LostConnections:
    """When the connections to nodes were lost, in seconds of trio's clock."""

    def __init__(self) -> None:
        self._lost_at: dict[int, float] = {}

    def lost(self, node_id: int) -> None:
        """Remember that the connection to a node was lost, unless one was a short time ago."""
        now = trio.current_time()
        if self._lost_at.get(node_id, float("-inf")) < now - RECENTLY_S:
            self._lost_at[node_id] = now

    def heard(self, node_id: int) -> None:
        """Forget the loss: the node has sent something."""
        self._lost_at.pop(node_id, None)

    def recent(self) -> Iterator[tuple[int, float]]:
        """Yield the nodes whose connections were lost a short time ago, each with the time."""
        since = trio.current_time() - RECENTLY_S
        yield from ((node_id, lost_at) for node_id, lost_at in self._lost_at.items() if lost_at > since)
