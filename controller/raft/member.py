"""A node of the quorum, whatever its role: what all roles share, and the changes from one role to another.

Each `become_…` leaves the effects of the change itself; what the new role does first is due at once, see `Raft`.
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
from minikafka.controller.raft.election_state import NOBODY, ElectionState
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
    """What cannot happen in a quorum that keeps its promises: the node must stop (KAFKA-12460)."""


class Member:
    """
    Attributes:
        others: the other voters, in order.
        majority: how many voters decide.
        election: as the last Persist has it.
        high_watermark: *Invariant:* it never shrinks, and is never beyond the log's end.
        now: of the input at hand.
        effects: of the input at hand.
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
            raise Inconsistent(f"no quorum of voters {self.voters} with a log up to {log.end_offset}: {snapshot}")
        if election.epoch < log.last_epoch:
            # The file was lost. That epoch had a leader, so that no vote in it can matter any more (as in Kafka).
            self.election = ElectionState(log.last_epoch)
        self.state: State = self._first_state()

    def _first_state(self) -> State:
        election = self.election
        if election.leader == self.node_id:
            # It may have lost what it had not synced: it must not go on leading the same epoch.
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
        return self.node_id if isinstance(state, Leader) else NOBODY

    def election_deadline(self) -> float:
        """In one to two election timeouts."""
        return self.now + self.settings.election_timeout * (1 + self.random.random())

    def send(self, peer: int, request: Request) -> None:
        self.effects.append(SendRequest(peer, request))

    def respond(self, token: Token, message: Response) -> None:
        self.effects.append(SendResponse(token, message))

    def sync(self) -> None:
        self.effects.append(Sync(self.log.end_offset, self.epoch))

    def commit(self, high_watermark: int) -> None:
        """Move the high watermark forwards; backwards it never goes."""
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            self.effects.append(Committed(high_watermark))

    def _persist(self, election: ElectionState) -> None:
        """Two in a row become one: nobody can have seen what lies between."""
        self.election = election
        if self.effects and isinstance(self.effects[-1], Persist):
            self.effects.pop()
        self.effects.append(Persist(election))

    def _become(self, state: State) -> None:
        check_transition(self.state.role, state.role, is_voter=self.is_voter)
        self.state = state

    def adopt(self, epoch: int) -> None:
        """Somebody is in a higher epoch: so is this node now, and nobody leads or has its vote, as far as it knows."""
        assert epoch > self.epoch, "an epoch never goes backwards"
        former = self.state
        if isinstance(former, Leader):
            self.effects.append(Deposed())
        self._persist(ElectionState(epoch))
        self._become(Unattached(self.election_deadline() if self.is_voter else self.now))
        if isinstance(former, Leader):
            self._release_fetches(former)

    def vote_for(self, candidate: int) -> None:
        """Give the one vote of this epoch, and leave the candidate the time to win. It may ask twice."""
        assert self.election.voted_for in (NOBODY, candidate), "one vote in an epoch"
        if self.election.voted_for == NOBODY:
            self._persist(replace(self.election, voted_for=candidate))
        self._become(Unattached(self.election_deadline()))

    def become_follower(self, leader: int) -> None:
        if self.election.leader not in (NOBODY, leader):
            raise Inconsistent(f"epoch {self.epoch} has two leaders: {self.election.leader} and {leader}")
        if self.election.leader == NOBODY:
            self._persist(replace(self.election, leader=leader))
        self._become(self._follower(leader))
        self.effects.append(Follow(leader, self.epoch))

    def _follower(self, leader: int) -> Follower:
        fetch_timeout = self.settings.fetch_timeout * (1 + 0.25 * self.random.random())
        return Follower(leader, fetch_timeout, fetch_deadline=self.now + fetch_timeout, next_request_at=self.now)

    def become_unattached(self) -> None:
        """An observer looks for a leader."""
        self._become(Unattached(self.now))

    def become_prospective(self, *, deadline: float, lost_leader: int = NOBODY) -> None:
        """SendRequest from `deadline` on whether an election is wanted."""
        self._become(Prospective(deadline, lost_leader))

    def become_candidate(self) -> None:
        """Begin an epoch with a vote for oneself."""
        self._persist(ElectionState(self.epoch + 1, voted_for=self.node_id))
        ballot = self.ballot(pre_vote=False)
        self._become(Candidate(self.election_deadline(), ballot))
        self.ask_for_votes(ballot)

    def ballot(self, *, pre_vote: bool) -> Ballot:
        """A question to all voters, which this node answers with yes."""
        vote = Vote(self.epoch, self.node_id, self.log.last_epoch, self.log.end_offset, pre_vote)
        return Ballot(vote, {self.node_id})

    def ask_for_votes(self, ballot: Ballot) -> None:
        for voter in self.others:
            self.send(voter, ballot.request)

    def become_leader(self, granting: Sequence[int]) -> None:
        """Persist it, append the epoch's first record, and sync that."""
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
        """Stop leading. It will not stand at once: others should get their chance."""
        leader = self.state
        assert isinstance(leader, Leader), "only a leader can resign"
        self._become(Resigned(self.now + 2 * self.settings.election_timeout * (1 + self.random.random())))
        self.effects.append(Deposed())
        self._release_fetches(leader)

    def _release_fetches(self, leader: Leader) -> None:
        """Nobody need wait for news from somebody who does not lead."""
        for waiting in leader.parked.values():
            self.respond(waiting.token, FetchResponse(self.epoch, self.leader_id))
