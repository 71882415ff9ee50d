"""`Raft`: one node of the quorum, as a state machine without clock, disk or network. Every input returns effects.

An input is handled by the rules of the node's role (`elections.py`, `raft_follower.py`, `raft_leader.py`). Then every
action is taken that is due because time has passed or the role has changed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from random import Random

from minikafka.controller.raft import elections, raft_follower, raft_leader, voter_changes
from minikafka.controller.raft.effects import Effects, Sync, Token
from minikafka.controller.raft.election_state import NO_NODE, ElectionState
from minikafka.controller.raft.log_interface import RaftLog, SnapshotId
from minikafka.controller.raft.member import Inconsistent, Member
from minikafka.controller.raft.messages import (
    RESPONSE_OF,
    BadMessage,
    BeginEpoch,
    BeginEpochResponse,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    Request,
    Response,
    Vote,
    VoteResponse,
)
from minikafka.controller.raft.raft_settings import RaftSettings
from minikafka.controller.raft.role_states import Follower, Leader, Prospective, ReplicaProgress, Unattached
from minikafka.controller.raft.role_transitions import Role
from minikafka.controller.raft.voter_history import Membership
from minikafka.controller.raft.voter_set import NO_DIRECTORY, ReplicaKey, Voter, VoterSet

__all__ = ["Inconsistent", "NotLeader", "Raft", "Replica"]

EPOCH_ADOPTED_MAX = 1 << 30
EPOCHS_AHEAD_MAX = 1000
"""The most epochs that a message may be ahead of this node once the quorum is beyond `EPOCH_ADOPTED_MAX`. Elections do
not get so far: the epochs that are left must not be used up by a message of a node whose file was damaged."""
STEPS_MAX = 8
"""A single voter goes through four roles to leading in one input; more steps are a bug."""


class NotLeader(Exception):
    """This node cannot append to the log, because it is not the leader."""


@dataclass(frozen=True, slots=True)
class Replica:
    """The leader's view of a replica, or of itself (DescribeQuorum).

    Attributes:
        id: the node id.
        directory_id: the id of the replica's metadata directory; `NO_DIRECTORY` in a static quorum.
        end_offset: the offset before which the replica has synced its log; -1 if it has not fetched yet.
        last_fetch_time, last_caught_up_time: the times in seconds, by the clock of the inputs; None for never.
    """

    id: int
    is_voter: bool
    end_offset: int
    last_fetch_time: float | None
    last_caught_up_time: float | None
    directory_id: bytes = NO_DIRECTORY


class Raft:
    """A voter, or an observer, which follows without a vote.

    Times are seconds of one monotonic clock. Call `tick` when `deadline` has passed, at first at once.

    Args:
        node_id: the id of this node.
        voters: the ids of all voters in the settings, including this node if it is a voter. They are the voters as long
            as no record in the log names voters (kraft.version 0).
        log: see `RaftLog`.
        election: the persisted election state; `ElectionState()` on the first start.
        settings: timeouts and limits.
        random: the source of randomized timeouts.
        now: the present time.
        wall_clock_ms: returns the timestamp of the records that a new leader appends, in milliseconds.
        own: this node as a voter of a dynamic quorum.

    Raises from every input:
        BadMessage: (from `request` and `response`) the message is invalid; nothing has changed.
        OSError, KafkaStorageError: the log cannot be read or written; the node must stop.
        Inconsistent: following the message would lose committed records, or it contradicts an earlier message.
        Any other exception: a bug. Changes made before the exception remain, and the next input returns their effects.
            That input may be `failed` for this request.
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
        wall_clock_ms: Callable[[], int] = lambda: 0,
        own: Voter | None = None,
    ) -> None:
        assert own is None or own.key.id == node_id, "one node id"
        self._member = Member(
            own=own or Voter(ReplicaKey(node_id)),
            voters=voters,
            log=log,
            election=election,
            settings=settings,
            random=random,
            now=now,
            wall_clock_ms=wall_clock_ms,
        )

    @property
    def role(self) -> Role:
        return self._member.state.role

    @property
    def epoch(self) -> int:
        return self._member.epoch

    @property
    def leader_id(self) -> int:
        """The id of the leader: this node itself, or the node that it follows; -1 if unknown."""
        return self._member.leader_id

    @property
    def is_leader(self) -> bool:
        return isinstance(self._member.state, Leader)

    def surely_leads(self, now: float) -> bool:
        """Whether this node leads and no other node can have been elected by now: a majority has fetched within the
        fetch timeout, in which voters do not elect another leader. Raft's lease (Ongaro's thesis, 6.4.1).
        """
        state = self._member.state
        return isinstance(state, Leader) and now < state.resigns_at

    @property
    def is_voter(self) -> bool:
        return self._member.is_voter

    @property
    def membership(self) -> Membership:
        """The kraft.version, and the voters that the newest record of the voters names."""
        return self._member.log.history.latest

    @property
    def voter_set(self) -> VoterSet:
        """The current voters, from the newest record of the voters or from the settings."""
        return self._member.voter_set

    @property
    def high_watermark(self) -> int:
        """The offset before which every record is committed. After a restart it is the latest snapshot's offset."""
        return self._member.high_watermark

    @property
    def confirmed_offset(self) -> int:
        """The offset before which every record is committed, as the leader of this epoch has found out; 0 before it
        has, and without a leader. Unlike `high_watermark`, it is never only what was committed before a restart."""
        member = self._member
        match member.state:
            case Leader() as leader:
                return member.high_watermark if member.high_watermark > leader.epoch_start else 0
            case Follower() as follower:
                return raft_follower.confirmed_offset(member, follower)
            case _:
                return 0

    @property
    def deadline(self) -> float:
        """The time at which `tick` is due."""
        return self._member.state.deadline

    @property
    def gives_up_at(self) -> float:
        """The time at which `tick` acts because other nodes sent nothing: not before `deadline`, and often later."""
        state = self._member.state
        if isinstance(state, Unattached) and state.in_flight is None and not self._member.may_lead:
            return inf  # No request is in flight: `tick` asks the next voter.
        return state.gives_up_at if isinstance(state, Follower | Leader) else state.deadline

    def replicas(self) -> list[Replica]:
        """The leader's view of all voters and observers, by id; empty on other nodes."""
        leader = self._member.state
        if not isinstance(leader, Leader):
            return []
        member, now = self._member, self._member.now
        itself = Replica(
            member.node_id, member.is_voter, member.log.end_offset, now, now, directory_id=member.directory
        )
        keys = {voter.key.id: voter.key for voter in member.voter_set}
        voters = [_replica(keys[id_], progress, is_voter=True) for id_, progress in leader.voters.items()]
        observers = [_replica(key, progress, is_voter=False) for key, progress in leader.observers.items()]
        return sorted([itself, *voters, *observers], key=lambda replica: (replica.id, replica.directory_id))

    def tick(self, now: float) -> Effects:
        """Do what is due because time has passed. Early and repeated calls are harmless."""
        self._begin(now)
        return self._finish()

    def request(self, now: float, sender: int, message: Request, token: Token) -> Effects:
        """Handle a request from node `sender`. Exactly one SendResponse with this token follows, now or later."""
        self._check_request(sender, message)
        self._check_epoch(message.epoch)
        member = self._begin(now)
        if message.epoch > member.epoch and self._is_of_voter(sender, message):
            member.adopt(message.epoch)
        if isinstance(message, Vote):
            member.respond(token, elections.handle_vote(member, message))
        elif isinstance(message, BeginEpoch):
            if message.epoch == member.epoch:
                self._learn(message.leader, firsthand=True)
            member.respond(token, BeginEpochResponse(member.epoch, member.leader_id))
        elif isinstance(message, Fetch):
            self._handle_fetch(message, token)
        else:
            self._handle_fetch_snapshot(message, token)
        return self._finish()

    def response(self, now: float, peer: int, request: Request, message: Response) -> Effects:
        """Handle the response of `peer` to `request`, which is the same object as in the SendRequest."""
        if not isinstance(message, RESPONSE_OF[type(request)]):
            raise BadMessage(f"node {peer} responded to {request.KIND} with {message.KIND}")
        self._check_leader(message.leader)
        self._check_epoch(message.epoch)
        member = self._begin(now)
        if message.epoch > member.epoch:
            member.adopt(message.epoch)
        if message.epoch == member.epoch:
            self._learn(message.leader, firsthand=message.leader == peer)
        if isinstance(request, Vote) and isinstance(message, VoteResponse):
            elections.count_response(member, peer, request, message)
        elif isinstance(message, FetchResponse | FetchSnapshotResponse):
            self._handle_fetch_response(request, message)
        return self._finish()

    def completed_by(self, request: Request, message: Response) -> tuple[SnapshotId, bytes] | None:
        """The snapshot that `response` will install for this message; None if it will install none. The driver may
        write the snapshot before it calls `response`, so that Raft need not wait for the disk. Nothing changes."""
        state = self._member.state
        if not isinstance(state, Follower) or state.in_flight is not request or message.epoch != self.epoch:
            return None
        if not isinstance(message, FetchSnapshotResponse):
            return None
        return raft_follower.completed_by(self._member, state, message)

    def failed(self, now: float, peer: int, request: Request) -> Effects:
        """Handle the failure of `request`, which gets no response: no connection, a broken one, or a timeout."""
        state = self._begin(now).state
        if isinstance(state, Follower) and state.in_flight is request:
            raft_follower.failed(self._member, state)
        elif isinstance(state, Unattached) and state.in_flight is request:
            raft_follower.retry_find_leader(self._member, state)
        elif isinstance(request, Vote):
            elections.count_failure(self._member, peer, request)
        return self._finish()

    def unreachable(self, now: float, peer: int) -> Effects:
        """Note that `peer` closed or refused a connection and has probably failed. Its followers then suspect it."""
        state = self._begin(now).state
        if isinstance(state, Follower) and state.leader_id == peer:
            raft_follower.suspect(self._member, state)
        return self._finish()

    def append(self, now: float, batches: bytes) -> Effects:
        """Append batches as the leader; they end at `log.end_offset`.

        Raises:
            NotLeader: this node is not the leader. Nothing has changed.
        """
        leader = self._member.state
        if not isinstance(leader, Leader):
            raise NotLeader(f"node {self._member.node_id} does not lead epoch {self.epoch}")
        raft_leader.append(self._begin(now), leader, batches)
        return self._finish()

    def synced(self, now: float, sync: Sync) -> Effects:
        """Handle the end of a Sync effect. To be called on every node, without delay."""
        member = self._begin(now)
        if isinstance(member.state, Leader):
            raft_leader.synced(member, member.state, sync)
        elif isinstance(member.state, Follower):
            raft_follower.synced(member, member.state, sync)
        return self._finish()

    def resign(self, now: float) -> Effects:
        """Give up leadership, before a clean shutdown. No effect if this node is not the leader."""
        member = self._begin(now)
        if isinstance(member.state, Leader):
            member.become_resigned()
        return self._finish()

    # -- voters that come and go (KIP-853) -----------------------------------------------------------------------

    def check_new_voter(self, now: float, key: ReplicaKey) -> None:
        """Check that `add_voter` may be called for a replica. Raises the errors of `add_voter`. Nothing changes."""
        voter_changes.check_new(self._begin(now), key)

    def add_voter(self, now: float, voter: Voter) -> Effects:
        """Append a set of voters with `voter` added, as the leader. The change is done once `membership` is committed.

        Raises:
            NotLeaderOrFollowerError, RequestTimedOutError, UnsupportedVersionError, DuplicateVoterError,
                InvalidRequestError: nothing has changed; the text is Kafka's.
        """
        voter_changes.add(self._begin(now), voter)
        return self._finish()

    def remove_voter(self, now: float, key: ReplicaKey) -> Effects:
        """Append a set of voters without the voter `key`, like `add_voter`. A leader that removes itself resigns after
        the commit. Raises VoterNotFoundError as well."""
        voter_changes.remove(self._begin(now), key)
        return self._finish()

    def update_voter(self, now: float, voter: Voter) -> Effects:
        """Append a set of voters with other addresses or supported versions of a voter, like `add_voter`. Raises
        VoterNotFoundError as well."""
        voter_changes.update(self._begin(now), voter)
        return self._finish()

    def check_upgrade(self, now: float, voters: VoterSet) -> None:
        """Check that `upgrade` may be called. Raises the errors of `upgrade`. Nothing changes."""
        voter_changes.check_upgrade(self._begin(now), voters)

    def upgrade(self, now: float, voters: VoterSet) -> Effects:
        """Upgrade kraft.version from 0 to 1.

        Args:
            now: the present time.
            voters: the voters of the settings, with their directory ids and addresses.

        Raises:
            NotLeaderOrFollowerError, RequestTimedOutError, InvalidUpdateVersionError: nothing has changed.
        """
        voter_changes.upgrade(self._begin(now), voters)
        return self._finish()

    def learn_own(self, own: Voter) -> None:
        """Take over this node's entry as a voter, once its metadata directory has an id. No effect later."""
        self._member.learn_own(own)

    def quorum_is_dynamic(self, contacts: Iterable[int]) -> None:
        """Note that the quorum is dynamic: its leader may be a voter that this node does not know yet.

        Args:
            contacts: the ids of nodes that an observer can ask for the leader.
        """
        self._member.is_static = False
        self._member.contacts = tuple(sorted(set(contacts) - {self._member.node_id}))

    def _begin(self, now: float) -> Member:
        self._member.now = now
        return self._member

    def _finish(self) -> Effects:
        """Do everything that is due, and return all effects."""
        member = self._member
        steps = 0
        while member.state.deadline <= member.now:
            self._do_what_is_due()
            steps += 1
            assert steps < STEPS_MAX, f"endless role changes in role {self.role.value}"
        effects, member.effects = member.effects, []
        return effects

    def _do_what_is_due(self) -> None:
        member, state = self._member, self._member.state
        if isinstance(state, Follower):
            raft_follower.due(member, state)
        elif isinstance(state, Leader):
            raft_leader.due(member, state)
        elif isinstance(state, Unattached) and not member.may_lead:
            raft_follower.find_leader(member, state)
        else:
            elections.due(member, state)

    def _learn(self, leader: int, *, firsthand: bool) -> None:
        """Learn the leader of this epoch from a message; `firsthand` if the leader itself sent the message."""
        member, state = self._member, self._member.state
        if leader in (NO_NODE, member.node_id):
            return
        if isinstance(state, Follower | Leader):
            if leader != member.leader_id:
                raise Inconsistent(f"epoch {member.epoch} has two leaders: {member.leader_id} and {leader}")
        elif isinstance(state, Prospective) and state.lost_leader == leader and not firsthand:
            state.reported_leader = leader
        else:
            member.become_follower(leader)

    def _is_of_voter(self, sender: int, message: Request) -> bool:
        """Whether a later epoch in a request is an epoch of the quorum. Any node may fetch, so that a Fetch never
        changes the epoch (in Kafka: UNKNOWN_LEADER_EPOCH). A candidate or leader that this node's log does not name may
        be a new voter: it is believed once this node has no leader (Ongaro's dissertation, 4.2.3)."""
        if isinstance(message, Fetch | FetchSnapshot):
            return False
        return sender in self._member.voters or not elections.has_leader(self._member)

    def _handle_fetch(self, fetch: Fetch, token: Token) -> None:
        member = self._member
        if isinstance(member.state, Leader) and fetch.epoch == member.epoch:
            raft_leader.handle_fetch(member, member.state, fetch, token)
        else:
            member.respond(token, FetchResponse(member.epoch, member.leader_id))

    def _handle_fetch_snapshot(self, fetch: FetchSnapshot, token: Token) -> None:
        member = self._member
        if isinstance(member.state, Leader) and fetch.epoch == member.epoch:
            member.respond(token, raft_leader.handle_fetch_snapshot(member, member.state, fetch))
        else:
            member.respond(token, FetchSnapshotResponse(member.epoch, member.leader_id, fetch.snapshot))

    def _handle_fetch_response(self, request: Request, message: FetchResponse | FetchSnapshotResponse) -> None:
        state = self._member.state
        if isinstance(state, Follower) and state.in_flight is request:
            raft_follower.handle_response(self._member, state, message)
        elif isinstance(state, Unattached) and state.in_flight is request:
            raft_follower.retry_find_leader(self._member, state)

    def _check_request(self, sender: int, message: Request) -> None:
        """Check that a node sends messages in its own name only, and that only voters request votes or lead."""
        if isinstance(message, Fetch | FetchSnapshot):
            speaker = message.replica
        else:
            speaker = message.candidate if isinstance(message, Vote) else message.leader
            self._check_leader(speaker)
        if speaker != sender or sender == self._member.node_id:
            raise BadMessage(f"node {sender} sent a {message.KIND} of node {speaker} to node {self._member.node_id}")

    def _check_epoch(self, epoch: int) -> None:
        if epoch > max(EPOCH_ADOPTED_MAX, self.epoch + EPOCHS_AHEAD_MAX):
            raise BadMessage(f"epoch {epoch} is too far ahead of this node's epoch {self.epoch}")

    def _check_leader(self, node_id: int) -> None:
        if self._member.is_static and node_id != NO_NODE and node_id not in self._member.voters:
            voters = self._member.voters
            raise BadMessage(f"node {node_id} is not one of the voters {voters}: all nodes must have the same voters")


def _replica(key: ReplicaKey, progress: ReplicaProgress, *, is_voter: bool) -> Replica:
    return Replica(
        key.id, is_voter, progress.end_offset, progress.fetched_at, progress.caught_up_at, directory_id=key.directory_id
    )
