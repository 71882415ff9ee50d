"""`GroupWaits`: what a consumer's group waits for, in words, for the log lines about long waits."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.waits import Awaited
from minikafka.client.groups.group_session import GroupSession


class GroupWaits:
    """The waits for joining a group and for its heartbeats.

    Args:
        group: returns the membership, or None.
        is_poll_overdue: returns whether the application has to request records before the member joins.
    """

    def __init__(
        self, cluster: Cluster, group: Callable[[], GroupSession | None], is_poll_overdue: Callable[[], bool]
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._is_poll_overdue = is_poll_overdue
        self._joining_since: float | None = None
        """Since when the group is being joined, on the event loop's clock; None if it is not."""

    def begin(self) -> None:
        """Log the waits of a new membership, until it ends."""
        self._joining_since = None
        self._cluster.waits.begin(self._failing)
        self._cluster.waits.begin(self._joining)

    def _joining(self) -> Awaited | None:
        """The wait for joining the group, for `Waits`; None if the application has to request records first."""
        group = self._group()
        if group is None:
            self._cluster.waits.end(self._joining)
        is_member = group is not None and group.is_stable and group.ended_by is None
        if group is None or is_member or group.pending is not None or self._is_poll_overdue():
            self._joining_since = None
            return None
        self._joining_since = self._joining_since or anyio.current_time()
        if group.ended_by is not None:
            why = f"the membership of group {group.group_id!r} has ended: {group.ended_by}"
            return Awaited("records", why, self._joining_since)
        why = self._cluster.why(group.last_error, otherwise="the coordinator waits for other members")
        return Awaited(f"joining group {group.group_id!r}", why, self._joining_since)

    def _failing(self) -> Awaited | None:
        """The wait for heartbeats that fail, for `Waits`; None if they succeed."""
        group = self._group()
        if group is None:
            self._cluster.waits.end(self._failing)
        if group is None or not group.is_stable or group.failing_since is None:
            return None
        what = f"heartbeats of group {group.group_id!r}"
        return Awaited(what, self._cluster.why(group.last_error), group.failing_since)
