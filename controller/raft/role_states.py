"""What a node knows in each role, and nothing that belongs to another. The rules are in the modules named in `raft.py`.

Every state has a `deadline`: when it is time to do something of one's own accord.
"""

from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, TypeAlias

from minikafka.controller.raft.effects import Token
from minikafka.controller.raft.election_state import NOBODY
from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.controller.raft.messages import Fetch, FetchSnapshot, Vote
from minikafka.controller.raft.role_transitions import Role


@dataclass(slots=True, eq=False)
class Unattached:
    """
    Attributes:
        deadline: of a voter: when it would rather stand itself. Of an observer: when to ask the next voter.
        asked: an observer's question to a voter, until it is answered.
        has_yielded: it has let another go first, which it does once.
    """

    role: ClassVar[Role] = Role.UNATTACHED
    deadline: float
    in_flight: Fetch | None = None
    has_yielded: bool = False


@dataclass(slots=True, eq=False)
class Download:
    """A snapshot, as far as it has come."""

    snapshot: SnapshotId
    data: bytearray = field(default_factory=bytearray)


@dataclass(slots=True, eq=False)
class Follower:
    """
    Attributes:
        leader_id: whom it fetches from.
        fetch_timeout: how long it lives without its leader, a little different for each: else all would stand at once.
        fetch_deadline: when its fetch_timeout with the leader ends.
        next_request_at: when to send the next request; while one is under way: when that is given up.
        asked: the request under way. *Invariant:* an answer to any other changes nothing.
        leader_responded: the leader has answered as such, so it is there, and no other is needed.
        leader_suspected: but since then its connection broke or it resigned.
        download: of a snapshot that takes the log's place.
        has_yielded: as `Unattached`.
    """

    role: ClassVar[Role] = Role.FOLLOWER
    leader_id: int
    fetch_timeout: float
    fetch_deadline: float
    next_request_at: float
    in_flight: Fetch | FetchSnapshot | None = None
    leader_responded: bool = False
    leader_suspected: bool = False
    download: Download | None = None
    has_yielded: bool = False

    @property
    def deadline(self) -> float:
        return min(self.fetch_deadline, self.next_request_at)

    def has_leader(self, now: float) -> bool:
        """Whether an election would only disturb."""
        return self.leader_responded and not self.leader_suspected and now < self.fetch_deadline


@dataclass(slots=True, eq=False)
class Ballot:
    """One round of asking all voters the same."""

    request: Vote
    granted: set[int]
    refused: set[int] = field(default_factory=set)

    def record(self, voter: int, *, granted: bool) -> None:
        """Count an answer; the first of each voter."""
        if voter not in self.granted and voter not in self.refused:
            (self.granted if granted else self.refused).add(voter)

    def is_won(self, majority: int) -> bool:
        return len(self.granted) >= majority

    def is_lost(self, majority: int, voter_count: int) -> bool:
        return len(self.refused) > voter_count - majority


@dataclass(slots=True, eq=False)
class Prospective:
    """
    Attributes:
        deadline: when to ask all again; without a ballot: for the first time.
        lost: the leader of this epoch that it has lost touch with. Others may not have noticed yet, so that it
            believes only the leader itself, not their reported_leader, until the next round.
        reported_leader: but this is what they said.
        has_yielded: as `Unattached`.
    """

    role: ClassVar[Role] = Role.PROSPECTIVE
    deadline: float
    lost_leader: int = NOBODY
    reported_leader: int = NOBODY
    ballot: Ballot | None = None
    has_yielded: bool = False


@dataclass(slots=True, eq=False)
class Candidate:
    """
    Attributes:
        deadline: when the election is given up as undecided.
    """

    role: ClassVar[Role] = Role.CANDIDATE
    deadline: float
    ballot: Ballot


@dataclass(slots=True, eq=False)
class ReplicaProgress:
    """How far another node has come, as its Fetches in this epoch told.

    Attributes:
        end_offset: it has synced everything before, and its log agrees with the leader's up to there; -1: not known.
        contact: when it last fetched, or when the epoch began.
        fetched_at, caught_up_at: when it last fetched, and fetched what was then the end.
    """

    contact: float
    end_offset: int = -1
    fetched_at: float | None = None
    caught_up_at: float | None = None


@dataclass(frozen=True, slots=True)
class ParkedFetch:
    """A Fetch that waits for news."""

    request: Fetch
    token: Token
    until: float


@dataclass(slots=True, eq=False)
class Leader:
    """
    Attributes:
        epoch_start: the offset of its first record. *Invariant:* the high watermark is moved only beyond it.
        synced_end: its own device has everything before.
        voters: progress of the other voters. observers: of nodes that do not vote.
        parked: by replica, at most one each.
        announces_at: when to tell voters that do not fetch who leads.
    """

    role: ClassVar[Role] = Role.LEADER
    epoch_start: int
    voters: dict[int, ReplicaProgress]
    announces_at: float
    synced_end: int = -1
    observers: dict[int, ReplicaProgress] = field(default_factory=dict)
    parked: dict[int, ParkedFetch] = field(default_factory=dict)
    resigns_at: float = inf
    """When, should nobody fetch any more, it has lost touch with the majority; never if it is one by itself."""

    @property
    def deadline(self) -> float:
        soonest = min(self.announces_at, self.resigns_at)
        for waiting in self.parked.values():
            soonest = min(soonest, waiting.until)
        return soonest


@dataclass(slots=True, eq=False)
class Resigned:
    """
    Attributes:
        deadline: when it stands again, should nobody else have been elected.
    """

    role: ClassVar[Role] = Role.RESIGNED
    deadline: float


State: TypeAlias = Unattached | Follower | Prospective | Candidate | Leader | Resigned
