"""Drives Raft: carries out its effects in order, keeps its time, and gives it what the other nodes say. Trio, for that.

Raft itself (`raft/`) is a function of its inputs; whoever has an input calls it, between two awaits, and its effects go
to the end of one queue. One task takes them from there. While it waits for the disk nothing behind is done: a vote is
on the device before anybody hears of it, and a record before its Fetch says that it is.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any, Protocol

import structlog
import trio

from minikafka.controller.quorum.peer_connection import Reply
from minikafka.controller.quorum.peers import Lost, Unreachable
from minikafka.controller.quorum.raft_log import StoredLog
from minikafka.controller.raft import NotLeader, Raft, RaftSettings, Replica, SnapshotId
from minikafka.controller.raft.effects import (
    Answer,
    Ask,
    Committed,
    Deposed,
    Effect,
    Effects,
    Elected,
    Follow,
    Installed,
    Persist,
    Sync,
)
from minikafka.controller.raft.messages import BadMessage, Request, Response, request_from_map, response_from_map

__all__ = ["NotLeader", "Quorum", "Told"]

log = structlog.get_logger("minikafka.quorum")

SendAsk = Callable[[int, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Ask a node something and wait for the answer; raises Unreachable or Lost."""


class Told(Protocol):
    """Who is told what has become of the quorum, in order. None of these waits."""

    def committed(self, high_watermark: int) -> None: ...

    def elected(self, epoch: int, end_offset: int) -> None:
        """This node leads; it may decide once everything before `end_offset` is committed."""
        ...

    def deposed(self) -> None: ...

    def following(self, leader_id: int, epoch: int) -> None: ...

    def installed(self, snapshot: SnapshotId, data: bytes) -> None:
        """All state is that of the snapshot now."""
        ...


class Quorum:
    """One node's part in the quorum.

    Args:
        node_id: this node.
        voters: the ids of all that vote.
        stored: the log; the caller closes it.
        settings: how long to wait for what.
        random: for election timeouts.
        ask: reaches the other nodes.
        told: see there.
        wall_clock_ms: the time in records.
    """

    def __init__(
        self,
        *,
        node_id: int,
        voters: Sequence[int],
        stored: StoredLog,
        settings: RaftSettings,
        random: Random,
        ask: SendAsk,
        told: Told,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self.voters = tuple(sorted(voters))
        self._stored = stored
        self._settings = settings
        self._ask = ask
        self._told = told
        self._effects: deque[Effect] = deque()
        self._effects_wait = trio.Event()
        self._sooner = trio.Event()
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
        )

    @property
    def leader_id(self) -> int:
        """-1 if none is known."""
        return self._raft.leader_id

    @property
    def epoch(self) -> int:
        return self._raft.epoch

    @property
    def is_leader(self) -> bool:
        return self._raft.is_leader

    @property
    def high_watermark(self) -> int:
        return self._raft.high_watermark

    def replicas(self) -> list[Replica]:
        """As the leader knows them; empty on others."""
        return self._raft.replicas()

    async def run(self) -> None:
        """Take part until cancelled. Whatever this raises, the node must stop."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_time)
            await self._carry_out(nursery)

    # -- inputs --------------------------------------------------------------------------------------------------

    def request(self, sender: int, body: Mapping[str, Any], reply: Reply) -> None:
        """A node asks. Nonsense is answered with nothing that it could use."""
        try:
            self._take(self._raft.request(trio.current_time(), sender, request_from_map(body), reply))
        except BadMessage as error:
            log.error("a node of the quorum sends nonsense", node=sender, problem=str(error))
            reply({})

    def unreachable(self, peer: int) -> None:
        """A node has closed a connection, or refuses one."""
        self._take(self._raft.unreachable(trio.current_time(), peer))

    def append(self, batches: bytes) -> int:
        """Append as the leader; returns where that ends.

        Raises:
            NotLeader: this node is none, and nothing was appended.
        """
        self._take(self._raft.append(trio.current_time(), batches))
        return self._stored.end_offset

    def resign(self) -> None:
        """Let others lead."""
        self._take(self._raft.resign(trio.current_time()))

    def _take(self, effects: Effects) -> None:
        if effects:
            self._effects += effects
            self._effects_wait.set()
        if self._raft.deadline < self._sleeps_until:
            self._sooner.set()

    async def _keep_time(self) -> None:
        while True:
            self._sleeps_until = self._raft.deadline
            self._sooner = trio.Event()
            with trio.move_on_at(self._sleeps_until):
                await self._sooner.wait()
            if trio.current_time() >= self._raft.deadline:
                self._take(self._raft.tick(trio.current_time()))

    # -- effects -------------------------------------------------------------------------------------------------

    async def _carry_out(self, nursery: trio.Nursery) -> None:
        while True:
            await self._effects_wait.wait()
            while self._effects:
                effect = self._effects.popleft()
                if isinstance(effect, Persist):
                    await self._stored.persist(effect.state, self.voters)
                elif isinstance(effect, Sync):
                    await self._sync(effect)
                elif isinstance(effect, Ask):
                    nursery.start_soon(self._ask_peer, effect.peer, effect.request)
                else:
                    self._tell(effect)
            self._effects_wait = trio.Event()

    async def _sync(self, sync: Sync) -> None:
        """One sync does for all that follow each other."""
        while self._effects and isinstance(following := self._effects[0], Sync):
            sync = following
            self._effects.popleft()
        await self._stored.sync()
        self._take(self._raft.synced(trio.current_time(), sync))

    def _tell(self, effect: Answer | Committed | Elected | Deposed | Follow | Installed) -> None:
        match effect:
            case Answer():
                assert callable(effect.token), "a token is what replies"
                effect.token(effect.message.to_map())
            case Committed():
                self._told.committed(effect.high_watermark)
            case Elected():
                log.info("this node leads the quorum", epoch=effect.epoch)
                self._told.elected(effect.epoch, effect.end_offset)
            case Deposed():
                log.info("this node does not lead the quorum any more", epoch=self.epoch)
                self._told.deposed()
            case Follow():
                log.info("following the leader of the quorum", leader=effect.leader_id, epoch=effect.epoch)
                self._told.following(effect.leader_id, effect.epoch)
            case Installed():
                log.info("a snapshot takes the place of the metadata log", offset=effect.snapshot.offset)
                self._told.installed(effect.snapshot, effect.data)

    async def _ask_peer(self, peer: int, request: Request) -> None:
        message = await self._answer_of(peer, request)
        now = trio.current_time()
        if message is None:
            self._take(self._raft.failed(now, peer, request))
            return
        try:
            self._take(self._raft.answer(now, peer, request, message))
        except BadMessage as error:
            log.error("a node of the quorum answers nonsense", node=peer, problem=str(error))
            self._take(self._raft.failed(now, peer, request))

    async def _answer_of(self, peer: int, request: Request) -> Response | None:
        """None where none comes while it could matter."""
        with trio.move_on_after(self._settings.fetch_timeout + self._settings.request_timeout):
            try:
                return response_from_map(await self._ask(peer, request.to_map()))
            except (Unreachable, Lost):
                return None
            except BadMessage as error:
                log.error("a node of the quorum answers nonsense", node=peer, problem=str(error))
        return None
