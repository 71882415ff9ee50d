"""`Member`: the state of a Raft node that all roles share, and the change from one role to another.

Each `become_…` adds the effects of the change itself. The first action of the new role is due at once: see `Raft`.
"""

from collections.abc import Callable, Iterable, Sequence
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
from minikafka.controller.raft.election_state import EPOCH_MAX, NO_NODE, ElectionState
from minikafka.controller.raft.leader_change import leader_change
from minikafka.controller.raft.log_interface import RaftLog
from minikafka.controller.raft.membership_records import control_batch, control_value
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
from minikafka.controller.raft.voter_history import BOOTSTRAP_OFFSET
from minikafka.controller.raft.voter_set import NO_DIRECTORY, ReplicaKey, Voter, VoterSet


class Inconsistent(Exception):
    """An invariant of the quorum is violated (KAFKA-12460). A message that leads to this error has no effect."""


class Member:
    """The state of this node that does not depend on its role, and the state of its current role.

    Attributes:
        own: this node as a voter, which it is or would be.
        key: the id of this node and of its metadata directory.
        voter_set: the current voters, from the newest record of the voters, or from the settings.
        others: the ids of the other voters, in order.
        majority: the number of voters that make a majority.
        contacts: the ids of nodes that know voters, for an observer whose log names no voters.
        is_static: whether all voters are known to be the voters of the settings.
        election: the election state, as in the last Persist.
        high_watermark: the high watermark. *Invariant:* it never decreases, and is never beyond the log end.
        now: the time of the current input.
        effects: the effects of the current input, and of those before it that an exception has interrupted.
    """

    def __init__(
        self,
        *,
        own: Voter,
        voters: Iterable[int],
        log: RaftLog,
        election: ElectionState,
        settings: RaftSettings,
        random: Random,
        now: float,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self.own = own
        self.key = own.key
        self.node_id = own.key.id
        self.contacts: tuple[int, ...] = ()
        self.log = log
        self._of_settings = VoterSet.of_ids(voters)
        self.is_static = bool(self._of_settings.ids)
        self.voters_changed()
        self.election = election
        self.settings = settings
        self.random = random
        self.wall_clock_ms = wall_clock_ms
        self.now = now
        self.effects: Effects = []
        snapshot = log.latest_snapshot()
        self.high_watermark = snapshot.offset if snapshot else log.start_offset
        if self.high_watermark > log.end_offset:
            raise Inconsistent(f"invalid start of a quorum: voters {self.voters}, log end {log.end_offset}, {snapshot}")
        if election.epoch < log.last_epoch:
            # The file was lost. The epoch had a leader, so votes in it no longer matter (as in Kafka).
            self.election = ElectionState(log.last_epoch)
        self.state: State = self._first_state()

    def voters_changed(self) -> None:
        """Take the current voters from the log: at the start, and after each change of the log."""
        latest = self.log.history.latest
        self.kraft_version = latest.kraft_version
        self.voter_set = latest.voters if latest.voters is not None and self.kraft_version else self._of_settings
        self.voters = self.voter_set.ids
        self.others = tuple(voter for voter in self.voters if voter != self.node_id)
        self.is_voter = self.voter_set.is_voter(self.key)
        self.majority = self.voter_set.majority
        if self.kraft_version:
            self.is_static = False

    def learn_own(self, own: Voter) -> None:
        """Take over this node's entry as a voter, once its metadata directory has an id, which never changes."""
        if self.key.directory_id == NO_DIRECTORY:
            self.own, self.key = own, own.key
            self.voters_changed()

    @property
    def may_lead(self) -> bool:
        """Whether this node starts elections: it is a voter, or its removal is not known to be committed. In the latter
        case it does not count itself, neither in the election nor as the leader, but the other voters may need its log
        (Ongaro's dissertation, 4.2.2)."""
        if self.is_voter or not self.kraft_version:
            return self.is_voter
        return any(voters.is_voter(self.key) for voters in self.log.history.in_doubt(self.high_watermark))

    @property
    def directory(self) -> bytes:
        """The directory id in this node's messages; `NO_DIRECTORY` in a static quorum."""
        return self.key.directory_id if self.kraft_version else NO_DIRECTORY

    def _first_state(self) -> State:
        election = self.election
        if election.leader == self.node_id and self.may_lead:
            # It may have lost records that were not synced: it must not lead the same epoch again.
            return Resigned(self._first_deadline())
        if election.leader in self.others:
            return self._follower(election.leader)
        return Unattached(self._first_deadline())

    def _first_deadline(self) -> float:
        if not self.may_lead or not self.others:
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
        """A random time from one to two election timeouts from now."""
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
        """Set the election state and add a Persist. A Persist directly before it is replaced, since no other effect
        depends on that."""
        self.election = election
        if self.effects and isinstance(self.effects[-1], Persist):
            self.effects.pop()
        self.effects.append(Persist(election))

    def _become(self, state: State) -> None:
        check_transition(self.state.role, state.role, is_voter=self.may_lead)
        self.state = state

    def adopt(self, epoch: int) -> None:
        """Move to a higher epoch, without a leader or a vote in it."""
        assert epoch > self.epoch, "epochs never decrease"
        former = self.state
        if isinstance(former, Leader):
            self.effects.append(Deposed())
        self._persist(ElectionState(epoch))
        self._become(Unattached(self.election_deadline() if self.may_lead else self.now))
        if isinstance(former, Leader):
            self._release_fetches(former)

    def vote_for(self, candidate: ReplicaKey) -> None:
        """Vote for a candidate, which may ask twice, and leave it an election timeout to win."""
        assert self.can_vote_for(candidate), "one vote in an epoch"
        if self.election.voted_for == NO_NODE:
            self._persist(replace(self.election, voted_for=candidate.id, voted_directory=candidate.directory_id))
        self._become(Unattached(self.election_deadline()))

    def can_vote_for(self, candidate: ReplicaKey) -> bool:
        """Whether this node has not voted for another candidate in this epoch."""
        voted = ReplicaKey(self.election.voted_for, self.election.voted_directory)
        return voted.id == NO_NODE or voted == candidate

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
        """Begin an epoch with a vote for this node. Raises Inconsistent if there is no further epoch."""
        if self.epoch == EPOCH_MAX:
            raise Inconsistent(
                f"epoch {EPOCH_MAX} is the last one: restore backups of the metadata directories of all voters"
            )
        self._persist(ElectionState(self.epoch + 1, voted_for=self.node_id, voted_directory=self.directory))
        ballot = self.ballot(pre_vote=False)
        self._become(Candidate(self.election_deadline(), ballot))
        self.ask_for_votes(ballot)

    def ballot(self, *, pre_vote: bool) -> Ballot:
        """A round of vote requests, with this node's own vote granted if it is a voter."""
        vote = Vote(self.epoch, self.node_id, self.log.last_epoch, self.log.end_offset, pre_vote, self.directory)
        return Ballot(vote, {self.node_id} if self.is_voter else set())

    def ask_for_votes(self, ballot: Ballot) -> None:
        for voter in self.voter_set:
            if voter.key.id != self.node_id:
                request = replace(ballot.request, voter_directory=voter.key.directory_id)
                ballot.sent[voter.key.id] = request
                self.send(voter.key.id, request)

    def become_leader(self, granting: Sequence[int]) -> None:
        """Persist the leader and append the epoch's first record; `raft_leader.begin` syncs it."""
        start = self.log.end_offset
        self._persist(replace(self.election, leader=self.node_id))
        voters = {voter: ReplicaProgress(contact=self.now) for voter in self.others}
        leader = Leader(start, voters, announces_at=self.now)
        if self.majority > self.is_voter:
            leader.resigns_at = self.now + self.settings.fetch_timeout
        self._become(leader)
        end = self.log.append_as_leader(self._first_records(granting), self.epoch)
        self.voters_changed()
        self.effects.append(Elected(self.epoch, end))

    def _first_records(self, granting: Sequence[int]) -> bytes:
        """The first records of an epoch: LEADER_CHANGE, and the voters if the log has no record of them yet or this
        node's entry in them has changed."""
        records = [leader_change(self.node_id, self.voters, granting)]
        if self.kraft_version:
            voters, latest = self.voter_set, self.log.history.latest
            is_other = self.is_voter and bool(self.own.endpoints) and voters.get(self.node_id) != self.own
            if latest.offset == BOOTSTRAP_OFFSET or is_other:
                voters = voters.with_voter(self.own) if is_other else voters
                records += [control_value(self.kraft_version), control_value(voters)]
        return control_batch(records, timestamp_ms=self.wall_clock_ms())

    def become_resigned(self) -> None:
        """Stop leading. This node's next election is delayed, so that another voter can be elected. A node that is no
        longer a voter looks for the next leader soon."""
        leader = self.state
        assert isinstance(leader, Leader), "only a leader can resign"
        if self.may_lead:
            later = self.now + 2 * self.settings.election_timeout * (1 + self.random.random())
            self._become(Resigned(later))
        else:
            self._become(Unattached(self.now + self.settings.retry_backoff))
        self.effects.append(Deposed())
        self._release_fetches(leader)

    def _release_fetches(self, leader: Leader) -> None:
        """Answer the waiting Fetches, because this node is no longer the leader."""
        for waiting in leader.parked.values():
            self.respond(waiting.token, FetchResponse(self.epoch, self.leader_id))
