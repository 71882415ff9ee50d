"""`VoterHistory`: the voters at each offset of the log, so that a truncation restores the earlier voters. Pure.

A voter set takes effect when its record is appended, committed or not (KIP-853; Ongaro's dissertation, 4.1).
Source: Kafka's `VoterSetHistory`, `KRaftControlRecordStateMachine`.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from minikafka.controller.raft.membership_records import MembershipRecord
from minikafka.controller.raft.voter_set import VoterSet

BOOTSTRAP_OFFSET = -1
"""The offset of the membership in the bootstrap checkpoint, before the first record."""


class Membership(NamedTuple):
    """The voters from an offset on.

    Attributes:
        kraft_version: the kraft.version; with 0 the settings name the voters.
        voters: the voters that the newest record names; None if no record has named voters.
        offset: the offset of the newest record of either.
    """

    kraft_version: int = 0
    voters: VoterSet | None = None
    offset: int = BOOTSTRAP_OFFSET


class VoterHistory:
    """The memberships in a log and in the snapshot before it, in order of offset.

    Attributes:
        entries: all memberships.
        latest: the current membership.
    """

    def __init__(self, first: Membership | None = None) -> None:
        self.entries = [first or Membership()]
        self.latest = self.entries[-1]

    def append(self, records: Iterable[tuple[int, MembershipRecord]]) -> None:
        """Add records of the voters that were appended to the log."""
        for offset, record in records:
            before = self.latest
            if isinstance(record, VoterSet):
                self.entries.append(Membership(before.kraft_version, record, offset))
            else:
                self.entries.append(Membership(record, before.voters, offset))
            self.latest = self.entries[-1]

    def truncate_to(self, offset: int) -> None:
        """Take back all records from `offset` on, which were removed from the log."""
        while len(self.entries) > 1 and self.entries[-1].offset >= offset:
            self.entries.pop()
        self.latest = self.entries[-1]

    def start_at(self, membership: Membership) -> None:
        """Start anew with the membership of a snapshot that has replaced the log."""
        self.entries = [membership]
        self.latest = membership

    def in_doubt(self, high_watermark: int) -> Iterator[VoterSet]:
        """The sets that may be the current set at a later leader: the newest set known to be committed, and all later
        sets."""
        for one in reversed(self.entries):
            if one.voters is not None:
                yield one.voters
            if one.offset < high_watermark:
                return

    def before(self, offset: int) -> Membership:
        """The membership after all records before `offset`, for a snapshot there."""
        return next((one for one in reversed(self.entries) if one.offset < offset), self.entries[0])

    def forget_before(self, offset: int) -> None:
        """Forget the memberships before `offset`, whose records a snapshot has replaced, except the last of them."""
        kept = self.before(offset)
        self.entries = [kept, *(one for one in self.entries if one.offset >= offset)]
