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
    """The state of a node that knows no leader of its epoch.

    Attributes:
        deadline: when a voter starts a pre-vote, or an observer asks the next voter for the leader.
        in_flight: an observer's request to a voter.
        has_yielded: whether this node has delayed its own pre-vote in favour of another voter's, which it does once.
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
    """The state of a node that fetches from the leader.

    Attributes:
        leader_id: the id of the leader.
        fetch_timeout: the fetch timeout with random jitter, so that not all followers start elections at once.
        fetch_deadline: when the fetch timeout expires.
        next_request_at: when to send the next request; if a request is in flight, when to give it up.
        in_flight: the request without a response yet. *Invariant:* a response to any other request is ignored.
        leader_responded: whether the leader has responded as leader of this epoch.
        leader_high_watermark: the high watermark in its last response whose records fit this log, even beyond the end
            of this log; 0 before.
        leader_suspected: whether, since the leader's last response, the connection broke or the leader resigned.
        download: the snapshot that is being fetched to replace the log.
        unsynced: the Sync that the next request waits for. Until the Sync is done nothing is due and no timeout
            expires, since a slow disk of this node does not mean that the leader has failed.
        has_yielded: see `Unattached`.
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
    leader_high_watermark: int = 0

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
        request: the request, without the directory of the voter that is asked.
        granted, refused: the ids of the voters that granted or refused their vote.
        sent: the request that was sent to each voter, by node id.
    """

    request: Vote
    granted: set[int]
    refused: set[int] = field(default_factory=set)
    sent: dict[int, Vote] = field(default_factory=dict)

    def record(self, voter: int, *, granted: bool) -> None:
        """Count a response; only the first response of each voter counts."""
        if voter not in self.granted and voter not in self.refused:
            (self.granted if granted else self.refused).add(voter)

    def is_won(self, majority: int) -> bool:
        return len(self.granted) >= majority

    def is_lost(self, majority: int, voter_count: int) -> bool:
        return len(self.refused) > voter_count - majority


@dataclass(slots=True, eq=False)
class Prospective:
    """The state of a voter that asks whether a majority would vote for it (pre-vote).

    Attributes:
        deadline: when to start the next round of pre-votes, or the first round.
        lost_leader: the leader of this epoch with which this node has lost contact. Other voters may not have noticed
            yet, so until the next round this node follows that leader again only if the leader itself makes contact.
        reported_leader: the leader that other voters named meanwhile.
        ballot: the current round of pre-votes; None before the first round.
        has_yielded: see `Unattached`.
    """

    role: ClassVar[Role] = Role.PROSPECTIVE
    deadline: float
    lost_leader: int = NO_NODE
    reported_leader: int = NO_NODE
    ballot: Ballot | None = None
    has_yielded: bool = False


@dataclass(slots=True, eq=False)
class Candidate:
    """The state of a voter that requests votes in a new epoch.

    Attributes:
        deadline: when the election timeout expires.
        ballot: the votes so far.
    """

    role: ClassVar[Role] = Role.CANDIDATE
    deadline: float
    ballot: Ballot


@dataclass(slots=True, eq=False)
class ReplicaProgress:
    """The replication progress of another node, from its Fetch requests in this epoch.

    Attributes:
        end_offset: the offset before which the node has synced its log, which matches the leader's; -1 if unknown.
        contact: when the node last fetched, or when the epoch began.
        fetched_at, caught_up_at: when the node last fetched, and when it last fetched from the log end; None for never.
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
    """The state of the leader.

    Attributes:
        epoch_start: the offset of the epoch's first record. *Invariant:* the high watermark only moves to beyond it.
        synced_end: the offset before which the log is on the leader's own device.
        voters: the progress of the other voters, by node id.
        observers: the progress of the replicas that do not vote.
        parked: the waiting Fetches by replica, at most one for each.
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
    """When the leader resigns unless a majority fetches before (check-quorum); never if it is the only voter."""

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
    """The state of a node that led this epoch and no longer does.

    Attributes:
        deadline: when this node starts a pre-vote itself, unless another node was elected.
    """

    role: ClassVar[Role] = Role.RESIGNED
    deadline: float


State: TypeAlias = Unattached | Follower | Prospective | Candidate | Leader | Resigned
