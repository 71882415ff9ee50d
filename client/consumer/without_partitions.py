"""`WithoutPartitions`: the errors and warnings of a consumer to which no partition is assigned."""

from __future__ import annotations

import logging
from collections.abc import Callable

from minikafka.client.consumer.fetch_state import Fetcher
from minikafka.client.escaped_log import escaped
from minikafka.client.groups.group_session import GroupSession

_logger = escaped(logging.getLogger("minikafka.client.consumer"))


class WithoutPartitions:
    """While no partition is assigned, refuses seeks, and warns once if reading ends.

    Args:
        group: returns the membership of a group, or None.
    """

    def __init__(self, fetcher: Fetcher, group: Callable[[], GroupSession | None]) -> None:
        self._fetcher = fetcher
        self._group = group
        self._has_told = False

    def refuse(self, what: str) -> None:
        """Raise ValueError if no partition is assigned, except in a listener's callback: its member may have none."""
        group = self._group()
        is_listener = group is not None and group.pending is not None and group.pending.running
        if not self._fetcher.states and not is_listener:
            why = self._why("assigns them while records are requested; seek in Listener.on_partitions_assigned")
            raise ValueError(f"{what}: no partitions are assigned to this consumer: {why}")

    def tell_of_an_end(self) -> None:
        """Warn once if reading ends without a partition, which would otherwise look like topics without records."""
        if not self._fetcher.states and not self._has_told:
            self._has_told = True
            why = self._why("has assigned none to this member")
            _logger.warning("reading ended without a partition: %s", why)

    def _why(self, in_group: str) -> str:
        group = self._group()
        otherwise = "assign() was given none" if group is None else f"group {group.group_id!r} {in_group}"
        return self._fetcher.why_nothing or otherwise
