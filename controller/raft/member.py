"""The state of a node that is the same in all roles, and the change from one role to another.

Each `become_…` adds the effects of the change itself. The first action of the new role is due at once: see `Raft`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from minikafka.controller.raft.effects import (
    Committed,
    Deposed,
    Effects,
    Elected,
    Follow,
    Persist,
    SendRequest,
    SendResponse,
    Sync,
    Token,
)
from minikafka.controller.raft.election_state import NO_NODE, ElectionState
from minikafka.controller.raft.leader_change import encode_leader_change
from minikafka.controller.raft.log_interface import RaftLog
from minikafka.controller.raft.messages import FetchResponse, Request, Response, Vote
from minikafka.controller.raft.raft_settings import RaftSettings
from minikafka.controller.raft.role_states import (
    Ballot,
    Candidate,
    Follower,
    Leader,
    Prospective,
    ReplicaProgress,
    Resigned,
    State,
    Unattached,
)
from minikafka.controller.raft.role_transitions import check_transition


class Inconsistent(Exception):
    """A violated invariant of the quorum: the node must stop (KAFKA-12460)."""


class Member:
    """
    Attributes:
        others: the other voters, in order.
        majority: the number of voters that make a majority.
        election: the election state, as in the last Persist.
        high_watermark: *Invariant:* it never decreases, and is never beyond the log end.
        now: the time of the current input.
        effects: the effects of the current input.
    """

    def __init__(
        self,
        *,
        node_id: int,
        voters: Sequence[int],
        log: RaftLog,
        election: ElectionState,
        settings: RaftSettings,
        random: Random,
        now: float,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self.node_id = node_id
        self.voters = tuple(sorted(set(voters)))
        self.others = tuple(voter for voter in self.voters if voter != node_id)
        self.is_voter = node_id in self.voters
        self.majority = len(self.voters) // 2 + 1
        self.log = log
        self.election = election
        self.settings = settings
        self.random = random
        self.wall_clock_ms = wall_clock_ms
        self.now = now
        self.effects: Effects = []
        snapshot = log.latest_snapshot()
        self.high_watermark = snapshot.offset if snapshot else log.start_offset
        if not self.voters or self.high_watermark > log.end_offset:
            raise Inconsistent(f"invalid start of a quorum: voters {self.voters}, log end {log.end_offset}, {snapshot}")
        if election.epoch < log.last_epoch:
            # The file was lost. The epoch had a leader, so votes in it no longer matter (as in Kafka).
            self.election = ElectionState(log.last_epoch)
        self.state: State = self._first_state()

    def _first_state(self) -> State:
        election = self.election
        if election.leader == self.node_id:
            # It may have lost records that were not synced: it must not lead the same epoch again.
            return Resigned(self._first_deadline())
        if election.leader in self.voters:
            return self._follower(election.leader)
        return Unattached(self._first_deadline())

    def _first_deadline(self) -> float:
        if not self.is_voter or not self.others:
            return self.now
        return self.now + self.settings.election_timeout * self.random.random()

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def leader_id(self) -> int:
        state = self.state
        if isinstance(state, Follower):
            return state.leader_id
        return self.node_id if isinstance(state, Leader) else NO_NODE

    def election_deadline(self) -> float:
        """In one to two election timeouts."""
        return self.now + self.settings.election_timeout * (1 + self.random.random())

    def send(self, peer: int, request: Request) -> None:
        self.effects.append(SendRequest(peer, request))

    def respond(self, token: Token, message: Response) -> None:
        self.effects.append(SendResponse(token, message))

    def sync(self) -> Sync:
        sync = Sync(self.log.end_offset, self.epoch)
        self.effects.append(sync)
        return sync

    def commit(self, high_watermark: int) -> None:
        """Advance the high watermark; a lower one is ignored."""
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            self.effects.append(Committed(high_watermark))

    def _persist(self, election: ElectionState) -> None:
        """Replace a Persist that directly precedes: no other effect depends on it."""
        self.election = election
        if self.effects and isinstance(self.effects[-1], Persist):
            self.effects.pop()
        self.effects.append(Persist(election))

    def _become(self, state: State) -> None:
        check_transition(self.state.role, state.role, is_voter=self.is_voter)
        self.state = state

    def adopt(self, epoch: int) -> None:
        """Move to a higher epoch, without a leader or a vote in it."""
        assert epoch > self.epoch, "epochs never decrease"
        former = self.state
        if isinstance(former, Leader):
            self.effects.append(Deposed())
        self._persist(ElectionState(epoch))
        self._become(Unattached(self.election_deadline() if self.is_voter else self.now))
        if isinstance(former, Leader):
            self._release_fetches(former)

    def vote_for(self, candidate: int) -> None:
        """Vote for a candidate, which may ask twice, and leave it an election timeout to win."""
        assert self.election.voted_for in (NO_NODE, candidate), "one vote in an epoch"
        if self.election.voted_for == NO_NODE:
            self._persist(replace(self.election, voted_for=candidate))
        self._become(Unattached(self.election_deadline()))

    def become_follower(self, leader: int) -> None:
        if self.election.leader not in (NO_NODE, leader):
            raise Inconsistent(f"epoch {self.epoch} has two leaders: {self.election.leader} and {leader}")
        if self.election.leader == NO_NODE:
            self._persist(replace(self.election, leader=leader))
        self._become(self._follower(leader))
        self.effects.append(Follow(leader, self.epoch))

    def _follower(self, leader: int) -> Follower:
        fetch_timeout = self.settings.fetch_timeout * (1 + 0.25 * self.random.random())
        return Follower(leader, fetch_timeout, fetch_deadline=self.now + fetch_timeout, next_request_at=self.now)

    def become_unattached(self) -> None:
        """Look for a leader, as an observer."""
        self._become(Unattached(self.now))

    def become_prospective(self, *, deadline: float, lost_leader: int = NO_NODE) -> None:
        """Start pre-votes at `deadline`."""
        self._become(Prospective(deadline, lost_leader))

    def become_candidate(self) -> None:
        """Begin an epoch with a vote for this node."""
        self._persist(ElectionState(self.epoch + 1, voted_for=self.node_id))
        ballot = self.ballot(pre_vote=False)
        self._become(Candidate(self.election_deadline(), ballot))
        self.ask_for_votes(ballot)

    def ballot(self, *, pre_vote: bool) -> Ballot:
        """A round of vote requests, with this node's own vote granted."""
        vote = Vote(self.epoch, self.node_id, self.log.last_epoch, self.log.end_offset, pre_vote)
        return Ballot(vote, {self.node_id})

    def ask_for_votes(self, ballot: Ballot) -> None:
        for voter in self.others:
            self.send(voter, ballot.request)

    def become_leader(self, granting: Sequence[int]) -> None:
        """Persist the leader and append the epoch's first record; `raft_leader.begin` syncs it."""
        start = self.log.end_offset
        self._persist(replace(self.election, leader=self.node_id))
        voters = {voter: ReplicaProgress(contact=self.now) for voter in self.others}
        leader = Leader(start, voters, announces_at=self.now)
        if self.majority > 1:
            leader.resigns_at = self.now + self.settings.fetch_timeout
        self._become(leader)
        record = encode_leader_change(self.node_id, self.voters, granting, timestamp_ms=self.wall_clock_ms())
        end = self.log.append_as_leader(record, self.epoch)
        self.effects.append(Elected(self.epoch, end))

    def become_resigned(self) -> None:
        """Stop leading. Its next election is delayed, so that another voter can be elected."""
        leader = self.state
        assert isinstance(leader, Leader), "only a leader can resign"
        self._become(Resigned(self.now + 2 * self.settings.election_timeout * (1 + self.random.random())))
        self.effects.append(Deposed())
        self._release_fetches(leader)

    def _release_fetches(self, leader: Leader) -> None:
        """Answer the waiting Fetches: this node leads no longer."""
        for waiting in leader.parked.values():
            self.respond(waiting.token, FetchResponse(self.epoch, self.leader_id))
