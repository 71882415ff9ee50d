"""`RecordOwners`: in which membership of its group a consumer got the records of each partition, for their commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from minikafka.client.groups.group_session import GroupSession
from minikafka.protocol.names import TopicPartition

Owner = tuple[int, str]
"""A generation, or the epoch of a member, and the member id."""


class RecordOwners:
    """The memberships in which records were returned, and which commits must use.

    Attributes:
        polled_with: the membership when records were requested last; None before, and without a group.
        has_given_up: whether partitions were given up since then.
    """

    def __init__(self) -> None:
        self.polled_with: Owner | None = None
        self.has_given_up = False
        self._taken_by: dict[TopicPartition, Owner] = {}
        self._assigning: dict[TopicPartition, Owner] = {}
        """The partitions of which a listener is being told that they are assigned, and the membership that has them."""
        self._has_reassigned = False

    def requested(self, group: GroupSession | None, held: Iterable[TopicPartition]) -> None:
        """Records are requested from the partitions `held`."""
        if self._has_reassigned and group is not None and group.member[0] >= 0:
            self._taken_by |= dict.fromkeys(held, group.member)
            self._has_reassigned = False
        self.polled_with = None if group is None else group.member
        self.has_given_up = False

    def assigned(
        self, group: GroupSession, everything: Sequence[TopicPartition], held: Iterable[TopicPartition]
    ) -> None:
        """Store the current membership for kept partitions, and for those without another owner in between."""
        generation, member_id = now = group.member
        self._has_reassigned = True
        kept = {*held}
        for tp in everything:
            if tp in kept or self._taken_by.get(tp, now) == (generation - 1, member_id):
                self._taken_by[tp] = now

    @contextmanager
    def telling(self, group: GroupSession, added: Iterable[TopicPartition]) -> Iterator[None]:
        """A block in which a listener is told that partitions are assigned, and may commit offsets of its own for them.

        These use the present membership. Commits beside the listener go on to use that of the records.
        """
        self._assigning = dict.fromkeys(added, group.member)
        token = _TELLING.set(self)
        try:
            yield
        finally:
            _TELLING.reset(token)
            self._assigning = {}

    def epoch_changed(self, before: Owner, now: Owner, held: Iterable[TopicPartition]) -> None:
        """Use the new generation or epoch for commits of the partitions that are kept."""
        if now[0] < 0:
            return
        for tp in held:
            if self._taken_by.get(tp) == before:
                self._taken_by[tp] = now
        self._assigning = {tp: now if owner == before else owner for tp, owner in self._assigning.items()}
        if self.polled_with == before and not self.has_given_up:
            self.polled_with = now

    def owner_of(self, positions: Iterable[TopicPartition], group: GroupSession | None) -> Owner | None:
        """The membership for a commit: the oldest in which the records were returned; None without a group."""
        if group is None:
            return None
        taken_by = self._taken_by | self._assigning if _TELLING.get() is self else self._taken_by
        return min((taken_by.get(tp, group.member) for tp in positions), default=group.member)


_TELLING: ContextVar[RecordOwners | None] = ContextVar("telling", default=None)
"""Of the consumer whose listener makes the present call."""
