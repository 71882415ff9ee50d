"""`Journal`: what the members of groups did; who commits what another one has. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Place = tuple[str, int]


@dataclass
class Tenure:
    """A time in which a member had a partition, in nanoseconds; `until` is None while it lasts."""

    member: str
    since: int
    until: int | None = None

    def lasts_at(self, at: int) -> bool:
        return self.since < at and (self.until is None or at < self.until)


@dataclass
class Journal:
    """What happened in one group.

    Attributes:
        tenures: Of each partition, in the order of their reports.
        seen: The values that members have read.
        reads, commits, refused: Counts: records read, commits that were accepted and that failed.
        overlaps: How often a member received a partition of which another one had not yet said that it is gone.
        intrusions: Commits that were accepted although another member had the partition.
    """

    group: str
    tenures: dict[Place, list[Tenure]] = field(default_factory=lambda: defaultdict(list))
    seen: set[str] = field(default_factory=set)
    reads: int = 0
    commits: int = 0
    refused: int = 0
    intrusions: list[str] = field(default_factory=list)

    def assigned(self, member: str, places: Iterable[Place], at: int) -> None:
        for place in places:
            if not any(one.member == member and one.until is None for one in self.tenures[place]):
                self.tenures[place].append(Tenure(member, at))

    def released(self, member: str, places: Iterable[Place], at: int) -> None:
        for place in places:
            for one in self.tenures[place]:
                if one.member == member and one.until is None:
                    one.until = at

    def ended(self, member: str, at: int) -> None:
        """A member is gone, or about to be killed."""
        self.released(member, list(self.tenures), at)

    def committed(self, member: str, offsets: Mapping[Place, int], began: int) -> None:
        """A commit that was accepted."""
        self.commits += 1
        for place in offsets:
            tenures = self.tenures[place]
            own = max((one.since for one in tenures if one.member == member), default=0)
            for other in tenures:
                if other.member != member and other.since > own and other.lasts_at(began):
                    self.intrusions.append(f"{member} commits {place}, which {other.member} has")

    def owners(self) -> dict[Place, list[str]]:
        """Who has each partition now."""
        return {place: [one.member for one in ones if one.until is None] for place, ones in self.tenures.items()}

    @property
    def overlaps(self) -> int:
        return sum(
            other.member != one.member and other.lasts_at(one.since)
            for ones in self.tenures.values() for one in ones for other in ones
        )  # fmt: skip
