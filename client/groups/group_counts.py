"""`GroupCounts`: durations of a group member's commits, heartbeats and rebalances, for `metrics()`."""

from __future__ import annotations

from minikafka.client.metrics import Distribution


class GroupCounts:
    """The durations, in ms, of commits and heartbeats that were answered, and of rebalances that were completed.

    A rebalance of the classic protocol begins with JoinGroup; one of the consumer protocol, with a new assignment.
    """

    def __init__(self) -> None:
        self.commits_ms = Distribution()
        self.heartbeats_ms = Distribution()
        self.rebalances_ms = Distribution()
