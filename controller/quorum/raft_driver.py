"""`RaftDriver` runs Raft: it carries out the effects in order, calls the timer, and exchanges messages. Trio: tasks.

Raft itself (`raft/`) is a pure function of its inputs. Any task may pass an input to Raft; this does not wait. The
resulting effects go to the end of one queue, which one task processes. While that task waits for the disk, no later
effect is carried out: a vote is on the device before it is sent, and a record before the Fetch that acknowledges it.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Protocol, TypeGuard

import structlog
import trio

from minikafka.controller.failures import FAILURES
from minikafka.controller.line_rate import LineRate
from minikafka.controller.metadata.records import UnreadableRecord
from minikafka.controller.quorum.handshake import ConnectionLost
from minikafka.controller.quorum.peer_connection import Reply
from minikafka.controller.quorum.peers import Unreachable
from minikafka.controller.quorum.raft_events import RaftEvents
from minikafka.controller.quorum.raft_log import StoredRaftLog
from minikafka.controller.raft.effects import (
    Committed,
    Deposed,
    Effect,
    Effects,
    Elected,
    Follow,
    Installed,
    Persist,
    SendRequest,
    SendResponse,
    Sync,
)
from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.controller.raft.messages import BadMessage, Request, Response, request_from_map, response_from_map
from minikafka.controller.raft.raft import Inconsistent, Raft, Replica
from minikafka.controller.raft.raft_settings import RaftSettings
from minikafka.controller.raft.voter_set import ReplicaKey, Voter, VoterSet
from minikafka.protocol.errors import KafkaStorageError, NotLeaderOrFollowerError

__all__ = ["QuorumListener", "RaftDriver", "confirmed"]

log = structlog.get_logger("minikafka.quorum")

ROUNDS_TO_HEAR = 5
"""The rounds of the event loop in which a message that waits in a socket is received, decoded and passed to Raft."""
MALFORMED_LINES_MAX = 10
"""The most lines about malformed requests in a second."""

RequestSender = Callable[[int, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a request to a node and waits for the response; raises Unreachable or ConnectionLost."""


class QuorumListener(Protocol):
    """Callbacks for changes of the quorum, called in order. They must return at once."""

    def committed(self, high_watermark: int) -> None: ...

    def voters_changed(self, voters: VoterSet) -> None:
        """The set of voters has changed to `voters`."""
        ...

    def elected(self, epoch: int, end_offset: int) -> None:
        """This node leads; it may decide once everything before `end_offset` is committed."""
        ...

    def deposed(self) -> None: ...

    def following(self, leader_id: int, epoch: int) -> None: ...

    def installed(self, snapshot: SnapshotId, data: bytes) -> None:
        """A snapshot has replaced the log, and with it all state."""
        ...


class RaftDriver:
    """The driver of this node's Raft state machine.

    Args:
        node_id: the id of this node.
        voters: the ids of all voters in the settings; records in the log may name other voters.
        stored: the metadata log; the caller closes it.
        settings: timeouts and limits.
        random: the source of randomized timeouts.
        send_request: sends a Raft request to another node.
        listener: see `QuorumListener`.
        wall_clock_ms: returns the time of the wall clock in milliseconds, for the timestamps of records.
        own: this node as a voter of a dynamic quorum.
    """

    def __init__(
        self,
        *,
        node_id: int,
        voters: Sequence[int],
        stored: StoredRaftLog,
        settings: RaftSettings,
        random: Random,
        send_request: RequestSender,
        listener: QuorumListener,
        wall_clock_ms: Callable[[], int],
        own: Voter | None = None,
    ) -> None:
        self.voters = tuple(sorted(voters))
        self._stored = stored
        self._settings = settings
        self._send_request = send_request
        self._listener = listener
        self._effects: deque[Effect] = deque()
        self._effects_queued = trio.Event()
        self._persisting = False
        self._deadline_moved = trio.Event()
        self._sleeps_until = 0.0
        self._raft = Raft(
            node_id=node_id,
            voters=self.voters,
            log=stored,
            election=stored.election_state(),
            settings=settings,
            random=random,
            now=trio.current_time(),
            wall_clock_ms=wall_clock_ms,
            own=own,
        )
        self._membership = self._raft.membership
        self._committed = trio.Event()
        self._events = RaftEvents(LineRate(lambda: trio.current_time() * 1000, MALFORMED_LINES_MAX))

    @property
    def kraft_version(self) -> int:
        """The kraft.version: 0 if the settings name the voters, 1 if the log does."""
        return self._raft.membership.kraft_version

    @property
    def voter_set(self) -> VoterSet:
        """The current voters."""
        return self._raft.voter_set

    @property
    def leader_id(self) -> int:
        """The node id of the leader; -1 if no leader is known."""
        return self._raft.leader_id

    @property
    def epoch(self) -> int:
        return self._raft.epoch

    @property
    def is_leader(self) -> bool:
        return self._raft.is_leader

    @property
    def surely_leads(self) -> bool:
        """Whether this node leads and no other one can have been elected by now; see `Raft.surely_leads`."""
        return self._raft.surely_leads(trio.current_time())

    @property
    def high_watermark(self) -> int:
        return self._raft.high_watermark

    @property
    def confirmed_offset(self) -> int:
        """See `Raft.confirmed_offset`."""
        return self._raft.confirmed_offset

    def replicas(self) -> list[Replica]:
        """The leader's view of all replicas; empty on other nodes."""
        return self._raft.replicas()

    async def run(self) -> None:
        """Run until cancelled. After any exception the node must stop."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run_timer)
            await self._carry_out(nursery)

    # -- inputs --------------------------------------------------------------------------------------------------

    def request(self, sender: int, body: Mapping[str, Any], reply: Reply) -> None:
        """Pass a request that has arrived to Raft. A malformed request gets an empty response."""
        try:
            message = request_from_map(body)
            self._queue(self._raft.request(trio.current_time(), sender, message, reply))
        except BadMessage as error:
            self._events.malformed_request(sender, error)
            reply({})
        else:
            if self.is_leader and message.epoch > self.epoch:
                self._events.node_is_ahead(
                    trio.current_time(), sender, its_epoch=message.epoch, own_epoch=self.epoch
                )

    def unreachable(self, peer: int) -> None:
        """Tell Raft that a node has closed a connection, or cannot be connected to."""
        self._queue(self._raft.unreachable(trio.current_time(), peer))

    def append(self, batches: bytes) -> int:
        """Append batches as the leader; return the end offset.

        Raises:
            NotLeader: this node is not the leader; nothing was appended.
        """
        self._queue(self._raft.append(trio.current_time(), batches))
        return self._stored.end_offset

    def resign(self) -> None:
        """Give up leadership."""
        self._queue(self._raft.resign(trio.current_time()))

    # -- voters that come and go ---------------------------------------------------------------------------------

    def learn_own(self, own: Voter) -> None:
        """Tell Raft this node's entry as a voter; see `Raft.learn_own`."""
        self._raft.learn_own(own)

    def quorum_is_dynamic(self, contacts: Iterable[int]) -> None:
        """Tell Raft that the quorum is dynamic; see `Raft.quorum_is_dynamic`."""
        self._raft.quorum_is_dynamic(contacts)

    def check_new_voter(self, key: ReplicaKey) -> None:
        """Check that a replica can be added to the voters now. Raises KafkaError."""
        self._raft.check_new_voter(trio.current_time(), key)

    def add_voter(self, voter: Voter) -> int:
        """Append a set of voters with `voter` added, as the leader; return the record's offset. Raises KafkaError."""
        self._queue(self._raft.add_voter(trio.current_time(), voter))
        return self._raft.membership.offset

    def remove_voter(self, key: ReplicaKey) -> int:
        """Append a set of voters without the voter `key`; see `add_voter`."""
        self._queue(self._raft.remove_voter(trio.current_time(), key))
        return self._raft.membership.offset

    def update_voter(self, voter: Voter) -> int:
        """Append a set of voters with the entry of `voter` replaced; see `add_voter`."""
        self._queue(self._raft.update_voter(trio.current_time(), voter))
        return self._raft.membership.offset

    def check_upgrade(self, voters: VoterSet) -> None:
        """Check that kraft.version can be upgraded. Raises KafkaError if `upgrade` would."""
        self._raft.check_upgrade(trio.current_time(), voters)

    def upgrade(self, voters: VoterSet) -> int:
        """Upgrade to kraft.version 1 with these voters; see `add_voter`."""
        self._queue(self._raft.upgrade(trio.current_time(), voters))
        return self._raft.membership.offset

    async def wait_committed(self, offset: int) -> None:
        """Wait until the record at `offset`, which this node has appended as the leader, is committed.

        Raises:
            NotLeaderOrFollowerError: this node is no longer the leader; the record may be kept or lost.
        """
        epoch = self.epoch
        while self.high_watermark <= offset:
            if not self.is_leader or self.epoch != epoch:
                raise NotLeaderOrFollowerError
            await self._committed.wait()

    def _watch_voters(self) -> None:
        if self._raft.membership is not self._membership:
            self._membership = self._raft.membership
            log.info("quorum voters changed", voters=list(self.voter_set.ids), kraft_version=self.kraft_version)
            self._listener.voters_changed(self.voter_set)

    def _wake_waiting(self) -> None:
        self._committed.set()
        self._committed = trio.Event()

    def _queue(self, effects: Effects) -> None:
        self._watch_voters()
        if len(effects) == 1 and self._may_pass(effects[0]):
            self._carry_out_at_once(effects[0])
        elif effects:
            self._effects += effects
            self._effects_queued.set()
        if self._raft.deadline < self._sleeps_until:
            self._deadline_moved.set()

    def _may_pass(self, effect: Effect) -> TypeGuard[SendResponse]:
        """Whether an effect need not wait for the effects in the queue."""
        if not isinstance(effect, SendResponse) or effect.waits_for_log or self._persisting:
            return False
        return not any(isinstance(before, Persist) for before in self._effects)

    async def _run_timer(self) -> None:
        while True:
            self._sleeps_until = self._raft.deadline
            self._deadline_moved = trio.Event()
            with trio.move_on_at(self._sleeps_until):
                await self._deadline_moved.wait()
            await self._hear_the_others()
            if trio.current_time() >= self._raft.deadline:
                self._queue(self._raft.tick(trio.current_time()))

    async def _hear_the_others(self) -> None:
        """Let the tasks of the connections pass on the messages that have arrived, before Raft's timer is called.

        After a long step in any task of this node, messages of other nodes wait in its sockets. Judging by the clock
        alone, a leader would resign and a follower would start an election, although all other nodes are well. Actions
        that are not of this kind, such as the response to a Fetch that has waited long enough, are not delayed.
        """
        for _ in range(ROUNDS_TO_HEAR):
            if trio.current_time() < self._raft.gives_up_at:
                return
            await trio.lowlevel.checkpoint()

    # -- effects -------------------------------------------------------------------------------------------------

    async def _carry_out(self, nursery: trio.Nursery) -> None:
        while True:
            await self._effects_queued.wait()
            while self._effects:
                effect = self._effects.popleft()
                if isinstance(effect, Persist):
                    self._persisting = True
                    await self._stored.persist(effect.state, self.voters)
                    self._persisting = False
                elif isinstance(effect, Sync):
                    await self._sync(effect)
                elif isinstance(effect, SendRequest):
                    nursery.start_soon(self._exchange, effect.peer, effect.request)
                else:
                    self._carry_out_at_once(effect)
            self._effects_queued = trio.Event()

    async def _sync(self, sync: Sync) -> None:
        """Sync the log once for all consecutive Sync effects."""
        while self._effects and isinstance(following := self._effects[0], Sync):
            sync = following
            self._effects.popleft()
        await self._stored.sync()
        self._queue(self._raft.synced(trio.current_time(), sync))

    def _carry_out_at_once(self, effect: SendResponse | Committed | Elected | Deposed | Follow | Installed) -> None:
        match effect:
            case SendResponse():
                assert callable(effect.token), "the token is a Reply"
                effect.token(effect.message.to_map())
            case Committed():
                self._wake_waiting()
                self._listener.committed(effect.high_watermark)
            case Elected():
                log.info("elected leader of the quorum", epoch=effect.epoch)
                self._listener.elected(effect.epoch, effect.end_offset)
            case Deposed():
                log.info("leadership of the quorum lost", epoch=self.epoch)
                self._wake_waiting()
                self._listener.deposed()
            case Follow():
                self._events.following(effect.leader_id, effect.epoch)
                self._listener.following(effect.leader_id, effect.epoch)
            case Installed():
                log.info("metadata snapshot installed", offset=effect.snapshot.offset, epoch=effect.snapshot.epoch)
                self._listener.installed(effect.snapshot, effect.data)

    async def _exchange(self, peer: int, request: Request) -> None:
        """Send a request, and pass its response or its failure to Raft."""
        message = await self._response_to(peer, request)
        try:
            effects = None if message is None else await self._effects_of(peer, request, message)
        except (OSError, KafkaStorageError):
            raise  # This node's disk has failed.
        except (BadMessage, UnreadableRecord, Inconsistent) as error:
            self._events.malformed_response(peer, error)
            effects = None
        except Exception:
            log.exception("raft response failed", node=peer, request=request.KIND)
            FAILURES["raft"] += 1
            effects = None
        self._queue(self._raft.failed(trio.current_time(), peer, request) if effects is None else effects)

    async def _effects_of(self, peer: int, request: Request, message: Response) -> Effects:
        complete = self._raft.completed_by(request, message)
        if complete is not None:
            await self._stored.prepare(*complete)
        effects = self._raft.response(trio.current_time(), peer, request, message)
        if self.leader_id < 0 and message.epoch < self.epoch:
            self._events.controller_is_behind(
                trio.current_time(), peer, its_epoch=message.epoch, own_epoch=self.epoch
            )
        return effects

    async def _response_to(self, peer: int, request: Request) -> Response | None:
        """Send a request and return the response; None if there is no valid response in time."""
        with trio.move_on_after(self._settings.fetch_timeout + self._settings.request_timeout):
            try:
                return response_from_map(await self._send_request(peer, request.to_map()))
            except (Unreachable, ConnectionLost):
                return None
            except BadMessage as error:
                self._events.malformed_response(peer, error)
        return None


def confirmed(driver: RaftDriver | None) -> int:
    """See `Raft.confirmed_offset`; 0 before this node takes part in the quorum."""
    return 0 if driver is None else driver.confirmed_offset
