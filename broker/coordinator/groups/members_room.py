"""`MembersRoom`: how many bytes members of all groups of a node may keep, of what they gave when they joined.

Each JoinGroup, and each ConsumerGroupHeartbeat that says what its member subscribes to, is added to what is taken; what
members gave back is found by counting again, once that seems too much. So nothing has to be given back, and what is
taken is never less than what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

import structlog

from minikafka.broker.coordinator.groups.state.group import Group

log = structlog.get_logger("minikafka.groups")

MEMBERS_SIZE_BYTES_MAX = 256 << 20
MEMBER_SIZE_BYTES = 2 << 10
"""What a member takes beside what it gave, or an id that is not used yet: ids have up to 1,000 letters."""
COUNT_S = 1.0
"""So often what is kept is counted at most."""
GROUPS_IN_A_STEP = 2_000


class MembersRoom:
    """The room for members of groups.

    Args:
        groups: Returns all groups of the node.
        clock: Seconds that only grow.
        size_bytes_max: For all of them together; `MEMBERS_SIZE_BYTES_MAX` by default.
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
        """Take room for a member that gave so many bytes; returns whether there is any. Pauses at `yield`."""
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
