"""`LostConnections`: the nodes that are probably dead, since they closed or refused a connection a short time ago."""

from collections.abc import Iterator

from minikafka.controller.quorum.broker_lease import BrokerLease

RECENTLY_S = 2.0
"""Connections that were lost longer ago were not lost because of the end of the last leader."""


class LostConnections:
    """When connections to nodes were lost. Times are seconds of trio's clock.

    Attributes:
        lease: ends with the connection to the active controller.
    """

    def __init__(self, lease: BrokerLease) -> None:
        self.lease = lease
        self._lost_at: dict[int, float] = {}

    def lost(self, node_id: int, now: float, *, is_dead: bool) -> None:
        """Remember that the connection to a node was lost; `is_dead`: and that its process is probably dead."""
        self.lease.lost(node_id)
        if is_dead and self._lost_at.get(node_id, float("-inf")) < now - RECENTLY_S:
            self._lost_at[node_id] = now

    def heard(self, node_id: int) -> None:
        """Forget the loss: the node has sent something."""
        self._lost_at.pop(node_id, None)

    def recent(self, now: float) -> Iterator[tuple[int, float]]:
        """Yield the nodes that probably died a short time ago, each with the time."""
        yield from ((one, lost_at) for one, lost_at in self._lost_at.items() if lost_at > now - RECENTLY_S)
