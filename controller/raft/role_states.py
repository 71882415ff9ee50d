"""The state that a node keeps in each role, one class per role. The rules that change it are in the modules per role.

Every state has a `deadline`: the time at which the node must act without any input.
"""

from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, TypeAlias

from minikafka.controller.raft.effects import Sync, Token
from minikafka.controller.raft.election_state import NO_NODE
from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.controller.raft.messages import Fetch, FetchSnapshot, Vote
from minikafka.controller.raft.role_transitions import Role
from minikafka.controller.raft.voter_set import ReplicaKey


@dataclass(slots=True, eq=False)
class Unattached:
    """
    Attributes:
        deadline: voter: when to start a pre-vote. Observer: when to request the leader from the next voter.
        in_flight: an observer's request to a voter.
        has_yielded: it has delayed its own pre-vote for another voter's, which it does once.
    """

    role: ClassVar[Role] = Role.UNATTACHED
    deadline: float
    in_flight: Fetch | None = None
    has_yielded: bool = False


@dataclass(slots=True, eq=False)
class Download:
    """The bytes of a snapshot that were fetched so far."""

    snapshot: SnapshotId
    data: bytearray = field(default_factory=bytearray)


@dataclass(slots=True, eq=False)
class Follower:
    """
    Attributes:
        leader_id: the node that it fetches from.
        fetch_timeout: the fetch timeout with random jitter, so that not all followers start elections at once.
        fetch_deadline: when the fetch timeout expires.
        next_request_at: when to send the next request; with one in flight: when to give that one up.
        in_flight: the request without a response yet. *Invariant:* a response to any other request is ignored.
        leader_responded: the leader has responded as leader of this epoch.
        leader_suspected: since its last response the connection broke, or it resigned.
        download: the snapshot that is being fetched to replace the log.
        unsynced: the Sync that its next request waits for. Its own disk says nothing about the leader: until then
            nothing is due, and no timeout expires.
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
    unsynced: Sync | None = None
    has_yielded: bool = False

    @property
    def deadline(self) -> float:
        if self.unsynced is not None:
            return inf
        return min(self.fetch_deadline, self.next_request_at)

    @property
    def gives_up_at(self) -> float:
        return self.fetch_deadline if self.in_flight is None else self.deadline

    def has_leader(self, now: float) -> bool:
        """Whether the leader is up, so that an election is not needed."""
        return self.leader_responded and not self.leader_suspected and now < self.fetch_deadline


@dataclass(slots=True, eq=False)
class Ballot:
    """One round of vote requests to all voters.

    Attributes:
        request: what all are asked. sent: the request to each, by node id.
    """

    request: Vote
    granted: set[int]
    refused: set[int] = field(default_factory=set)
    sent: dict[int, Vote] = field(default_factory=dict)

    def record(self, voter: int, *, granted: bool) -> None:
        """Count a response; only the first of each voter counts."""
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
        deadline: when to start the next round of pre-votes, or the first one.
        lost_leader: the leader of this epoch that it has lost contact with. Other voters may not have noticed yet, so
            until the next round it follows that leader again only if the leader itself makes contact.
        reported_leader: the leader that other voters named meanwhile.
        has_yielded: as `Unattached`.
    """

    role: ClassVar[Role] = Role.PROSPECTIVE
    deadline: float
    lost_leader: int = NO_NODE
    reported_leader: int = NO_NODE
    ballot: Ballot | None = None
    has_yielded: bool = False


@dataclass(slots=True, eq=False)
class Candidate:
    """
    Attributes:
        deadline: the election timeout.
    """

    role: ClassVar[Role] = Role.CANDIDATE
    deadline: float
    ballot: Ballot


@dataclass(slots=True, eq=False)
class ReplicaProgress:
    """The replication progress of another node, from its Fetch requests in this epoch.

    Attributes:
        end_offset: it has synced everything before, and its log matches the leader's up to there; -1: unknown.
        contact: when it last fetched, or when the epoch began.
        fetched_at, caught_up_at: when it last fetched, and when it last fetched from the log end.
    """

    contact: float
    end_offset: int = -1
    fetched_at: float | None = None
    caught_up_at: float | None = None


@dataclass(frozen=True, slots=True)
class ParkedFetch:
    """A Fetch that waits at the leader for new records."""

    request: Fetch
    token: Token
    until: float


@dataclass(slots=True, eq=False)
class Leader:
    """
    Attributes:
        epoch_start: the offset of its first record. *Invariant:* the high watermark only moves to beyond it.
        synced_end: everything before is on its own device.
        voters: the progress of the other voters, by node id. observers: of replicas that do not vote.
        parked: waiting Fetches by replica, at most one each.
        announces_at: when to send BeginEpoch to voters that do not fetch.
    """

    role: ClassVar[Role] = Role.LEADER
    epoch_start: int
    voters: dict[int, ReplicaProgress]
    announces_at: float
    synced_end: int = -1
    observers: dict[ReplicaKey, ReplicaProgress] = field(default_factory=dict)
    parked: dict[int, ParkedFetch] = field(default_factory=dict)
    resigns_at: float = inf
    """When it resigns unless a majority fetches before (check-quorum); never if it is the only voter."""

    @property
    def deadline(self) -> float:
        soonest = min(self.announces_at, self.resigns_at)
        for waiting in self.parked.values():
            soonest = min(soonest, waiting.until)
        return soonest

    @property
    def gives_up_at(self) -> float:
        return self.resigns_at


@dataclass(slots=True, eq=False)
class Resigned:
    """
    Attributes:
        deadline: when it starts a pre-vote itself, unless another node was elected.
    """

    role: ClassVar[Role] = Role.RESIGNED
    deadline: float


State: TypeAlias = Unattached | Follower | Prospective | Candidate | Leader | Resigned
