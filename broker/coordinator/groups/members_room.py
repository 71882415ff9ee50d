"""`MembersRoom`: bounds the memory for the data that members of all groups of a node gave when they joined.

The size of each JoinGroup, and of each ConsumerGroupHeartbeat with a subscription, is added to the taken bytes. Nothing
is subtracted when a member leaves. Instead, when the bound would be exceeded, the data that the groups still keep is
counted again. So the taken bytes are never less than the kept bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

import structlog

from minikafka.broker.coordinator.groups.state.group import Group

log = structlog.get_logger("minikafka.groups")

MEMBERS_SIZE_BYTES_MAX = 256 << 20
MEMBER_SIZE_BYTES = 2 << 10
"""The memory of a member besides its data, or of an id that is not used yet: ids have up to 1,000 letters."""
COUNT_S = 1.0
"""The shortest time between two counts of the kept data, in seconds."""
GROUPS_IN_A_STEP = 2_000


class MembersRoom:
    """The room for the data of group members.

    Args:
        groups: Returns all groups of the node.
        clock: A monotonic clock in seconds.
        size_bytes_max: The bound for all groups together; `MEMBERS_SIZE_BYTES_MAX` by default.
    """

    def __init__(
        self,
        groups: Callable[[], Iterable[Group]],
        clock: Callable[[], float],
        size_bytes_max: int | None = None,
    ) -> None:
        self._groups = groups
        self._clock = clock
        self._size_bytes_max = MEMBERS_SIZE_BYTES_MAX if size_bytes_max is None else size_bytes_max
        self._taken_bytes = 0
        self._counted_s = float("-inf")

    def take(self, size_bytes: int) -> Generator[None, None, bool]:
        """Take room for a member with `size_bytes` bytes of data; returns whether there is room. Pauses at `yield`."""
        size_bytes += MEMBER_SIZE_BYTES
        if self._lacks(size_bytes) and self._clock() >= self._counted_s + COUNT_S:
            yield from self._count()
            if self._lacks(size_bytes):
                log.warning("no room for group members", taken=self._taken_bytes, most=self._size_bytes_max)
        if self._lacks(size_bytes):
            return False
        self._taken_bytes += size_bytes
        return True

    def _lacks(self, size_bytes: int) -> bool:
        return self._taken_bytes + size_bytes > self._size_bytes_max

    def _count(self) -> Generator[None, None, None]:
        self._counted_s = self._clock()
        before, kept = self._taken_bytes, 0
        for number, group in enumerate(list(self._groups()), 1):
            size_bytes, members = group.kept
            kept += size_bytes + MEMBER_SIZE_BYTES * members
            if number % GROUPS_IN_A_STEP == 0:
                yield
        self._taken_bytes += kept - before
