"""The controller as every node of a cluster has it: an image that follows the quorum, and a way to change it.

Whoever is asked for a change hands it to the active controller, which is on the node that leads the quorum, and returns
when this node's own image has it. While nobody leads it is asked again: always where it certainly was not carried out;
where that is not known, only if doing it twice is as good as doing it once. Trio: it starts the quorum's tasks.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any

import structlog
import trio

from minikafka.controller.active.active_controller import ActiveController
from minikafka.controller.active.leadership_term import Term, TermEnded
from minikafka.controller.decisions.decision import Context
from minikafka.controller.decisions.forwarding_rules import split
from minikafka.controller.decisions.producer_ids import ProducerIds
from minikafka.controller.decisions.routing import DESCRIPTIONS
from minikafka.controller.forwarding import (
    answer_body,
    error_body,
    is_repeatable,
    request_body,
    request_from,
    response_from,
)
from minikafka.controller.metadata.cluster_ids import data_directories, known_cluster_id, metadata_directory
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ClusterRecord, Record
from minikafka.controller.metadata_applier import Applier, Subscriber
from minikafka.controller.quorum.peer_connection import Reply
from minikafka.controller.quorum.peer_frames import BadFrame
from minikafka.controller.quorum.peer_network import Network
from minikafka.controller.quorum.peers import Lost, Peers, Unreachable
from minikafka.controller.quorum.quorum_description import QuorumDescription, described
from minikafka.controller.quorum.quorum_settings import QuorumSettings
from minikafka.controller.quorum.raft_driver import Quorum
from minikafka.controller.quorum.raft_log import StoredLog
from minikafka.controller.raft import SnapshotId
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.controller.standalone_log import metadata_log_config
from minikafka.protocol.errors import KafkaError, RequestTimedOutError, error_for
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from minikafka.storage.data_directory import WrongDirectory
from minikafka.storage.disk import Disk

__all__ = ["QuorumController"]

log = structlog.get_logger("minikafka.controller")

RETRY_S = 0.05
LOST_LATELY_S = 2.0
"""What broke a connection longer ago does not explain the end of the last leader."""
GRACE_S = 1.0
"""The active controller keeps to a request's timeout by itself; its answer must still find somebody."""
FORWARDED_MAX = 1000


class QuorumController:
    """See above. `run` it before anything is asked of it.

    Args:
        static: what the node was started with.
        settings: of the quorum.
        disk: where the metadata log is kept.
        network: how the nodes are connected.
        now_ms: the wall clock.
        random: ids, places, election timeouts.
        log_levels: level by logger of this node; changed in place.
        set_log_level: called with logger and level when one is changed.

    Attributes:
        broker_epoch: of this node's registration as a broker, -1 before; set by whoever registers it.

    Raises:
        WrongDirectory, UnreadableRecord, BlockingIOError: the data is not fit to start with.
    """

    def __init__(
        self,
        static: StaticSettings,
        settings: QuorumSettings,
        *,
        disk: Disk,
        network: Network,
        now_ms: Callable[[], int],
        random: Random,
        log_levels: dict[str, str] | None = None,
        set_log_level: Callable[[str, str], None] = lambda logger, level: None,
    ) -> None:
        self.broker_epoch = -1
        self.log_levels = {"root": "INFO"} if log_levels is None else log_levels
        self._static = static
        self._settings = settings
        self._network = network
        self._now_ms = now_ms
        self._random = random
        self._set_log_level = set_log_level
        self._cluster_id = known_cluster_id(disk, data_directories(static), static.node_id)
        self._stored = StoredLog.open(disk, metadata_directory(static), metadata_log_config(static), now_ms=now_ms)
        self._applier = Applier(
            self._stored, static.number("metadata.log.max.record.bytes.between.snapshots")
        )
        self._applier.subscribe(self._check_cluster)
        self._check_cluster([ClusterRecord(self.image.cluster_id)] if self.image.cluster_id else [])
        self._peers = Peers(
            static.node_id,
            network=network,
            voters=settings.voters,
            cluster_id=lambda: self._cluster_id,
            learn=self._learn,
            on_ask=self._asked,
            on_lost=self._lost,
            on_refused=self._refused,
        )
        self._quorum: Quorum | None = None
        self._active: ActiveController | None = None
        self._scope_of_term = trio.CancelScope()
        self._leader_changed = trio.Event()
        self._asking: dict[trio.CancelScope, int] = {}
        self._refusing: set[int] = set()
        self._gone: dict[int, float] = {}
        self._forwarded = 0
        self._nursery: trio.Nursery | None = None

    # -- what is known -------------------------------------------------------------------------------------------

    @property
    def image(self) -> Image:
        """The cluster, as committed and known here."""
        return self._applier.image

    @property
    def offset(self) -> int:
        """Everything before is applied here."""
        return self._applier.progress.offset

    @property
    def cluster_id(self) -> str | None:
        """None before the first leader has named it."""
        return self._cluster_id

    @property
    def leader_id(self) -> int:
        """The node of the active controller; -1 where none is known."""
        return -1 if self._quorum is None else self._quorum.leader_id

    @property
    def leader_epoch(self) -> int:
        """The epoch of the quorum."""
        return 0 if self._quorum is None else self._quorum.epoch

    @property
    def snapshot_offset(self) -> int:
        """What the newest snapshot stands for: everything before."""
        snapshot = self._stored.latest_snapshot()
        return 0 if snapshot is None else snapshot.offset

    @property
    def is_active(self) -> bool:
        """Whether the active controller is here."""
        return self._active is not None

    def subscribe(self, subscriber: Subscriber) -> None:
        """Have `subscriber` called with committed records, after the image has changed and before anybody is answered.
        What it raises ends the node."""
        self._applier.subscribe(subscriber)

    async def until(self, offset: int) -> None:
        """Wait until everything before is applied here."""
        await self._applier.progress.until(offset)

    async def formatted(self) -> str:
        """The cluster id, once this node's image has it."""
        while not self.image.cluster_id:
            await self._applier.progress.grown()
        return self.image.cluster_id

    # -- what is done --------------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take part until cancelled. Whatever this raises, the node must stop.

        Raises:
            OSError: a port cannot be had.
            WrongDirectory: this node belongs to another cluster than the others, or has another node's id.
        """
        listeners: list[trio.abc.Listener[trio.abc.Stream]] = []
        for host, port in self._settings.listen_on:
            listeners += await self._network.listen(host, port)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await nursery.start(self._peers.run, listeners)
            task_status.started()
            if not self._peers.voters:
                await self._find_voters()
            self._quorum = Quorum(
                node_id=self._static.node_id,
                voters=list(self._peers.voters),
                stored=self._stored,
                settings=self._settings.raft,
                random=self._random,
                ask=lambda peer, body: self._peers.ask(peer, "raft", body),
                told=self,
                wall_clock_ms=self._now_ms,
            )
            nursery.start_soon(self._quorum.run)
            nursery.start_soon(self._applier.run)
            nursery.start_soon(self._tell_progress)

    async def _find_voters(self) -> None:
        found = await self._peers.discover(self._settings.bootstrap, wait_for_all=self._settings.is_controller)
        log.info("found the quorum", voters=sorted(found))
        self._peers.voters = found

    async def handle(self, request: Any, version: int) -> Any:
        """The response to a request message; what it changes is known here.

        Raises:
            KafkaError: for the request as a whole; NOT_CONTROLLER where nobody knows whether it was carried out,
                REQUEST_TIMED_OUT where no active controller was found in time.
        """
        describe = DESCRIPTIONS.get(type(request))
        if describe is not None:
            return describe(self.image, request, version)
        handed = split(self.image, request, Context(self._static, self._random, version, self.log_levels))
        for logger, level in handed.log_levels.items():
            self.log_levels[logger] = level
            self._set_log_level(logger, level)
        return handed.merge(None if handed.request is None else await self._carried_out(handed.request, version))

    async def _carried_out(self, request: Any, version: int) -> Any:
        """The response of the active controller, whoever that comes to be."""
        # Decisions see to it that without time left nothing happens, in the words of each API.
        timeout_ms = max(0, getattr(request, "timeout_ms", 0)) or self._static.number("request.timeout.ms")
        with trio.move_on_after(timeout_ms / 1000 + GRACE_S):
            while True:
                changed = self._leader_changed
                try:
                    response, offset = await self._attempt(request, version)
                    await self.until(offset)
                    return response
                except TermEnded as error:
                    if not error.certain and not is_repeatable(request):
                        raise
                with trio.move_on_after(RETRY_S):
                    await changed.wait()
        raise RequestTimedOutError("no active controller carried this out in time")

    async def allocate_producer_ids(self) -> ProducerIds:
        """The next block of producer ids for this node. Raises KafkaError."""
        request = AllocateProducerIdsRequest(broker_id=self._static.node_id, broker_epoch=self.broker_epoch)
        response = await self.handle(request, 0)
        if response.error_code:
            raise error_for(response.error_code)
        return ProducerIds(response.producer_id_start, response.producer_id_len)

    async def describe_quorum(self) -> QuorumDescription:
        """As the leader knows it. Raises RequestTimedOutError where none answers in time."""
        with trio.move_on_after(self._static.number("request.timeout.ms") / 1000):
            while True:
                described = await self._describe_quorum()
                if described is not None:
                    return described
                await trio.sleep(RETRY_S)
        raise RequestTimedOutError("no leader of the quorum answered in time")

    async def _describe_quorum(self) -> QuorumDescription | None:
        if self._quorum is not None and self._quorum.is_leader:
            return self._own_description(self._quorum)
        try:
            with trio.move_on_after(self._settings.raft.fetch_timeout):
                return QuorumDescription.from_map(await self._peers.ask(self.leader_id, "describe", {}))
        except (Unreachable, Lost, BadFrame):
            pass
        return None

    def _own_description(self, quorum: Quorum) -> QuorumDescription:
        now, now_ms = trio.current_time(), self._now_ms()
        replicas = tuple(described(one, now=now, now_ms=now_ms) for one in quorum.replicas())
        return QuorumDescription(quorum.leader_id, quorum.epoch, quorum.high_watermark, replicas)

    @property
    def voters(self) -> Mapping[int, tuple[str, int]]:
        """Where the controllers are, by id; empty before they are found."""
        return self._peers.voters

    async def resign(self) -> None:
        """Where this node leads, let another one, and give it a moment to hear of that."""
        if self._quorum is not None and self._quorum.is_leader:
            self._quorum.resign()
            await trio.sleep(RETRY_S)

    def close(self) -> None:
        """Close the log."""
        self._stored.close()

    # -- asking the active controller ----------------------------------------------------------------------------

    async def _attempt(self, request: Any, version: int) -> tuple[Any, int]:
        """Response, and the offset that it rests on. Raises KafkaError, TermEnded."""
        if self._active is not None:
            outcome = await self._active.handle(request, version)
            return outcome.reply, outcome.end_offset
        leader = self.leader_id
        if leader in (-1, self._static.node_id):
            raise TermEnded(certain=True)
        scope = trio.CancelScope()
        self._asking[scope] = leader
        try:
            with scope:
                body = await self._peers.ask(leader, "forward", request_body(request, version))
                return response_from(request, version, body)
        except Unreachable:
            raise TermEnded(certain=True) from None
        except Lost:
            raise TermEnded(certain=False) from None
        finally:
            del self._asking[scope]
        raise TermEnded(certain=False)  # another leads meanwhile

    async def _tell_progress(self) -> None:
        """As a broker, have the active controller know how far this node is: whoever creates a topic waits for that."""
        while True:
            changed, offset = self._leader_changed, self.offset
            if self.broker_epoch >= 0 and not await self.be_heard():
                await trio.sleep(RETRY_S)
            elif self.offset == offset:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_then_cancel, changed.wait, nursery.cancel_scope)
                    nursery.start_soon(_then_cancel, self._applier.progress.grown, nursery.cancel_scope)

    async def be_heard(self) -> bool:
        """Tell the active controller that this broker is there, and how far; returns whether somebody heard it.

        It does not wait its turn among decisions, so it counts however many there are.
        """
        leader = self.leader_id
        if self._active is not None:
            self._active.heard_of(self._static.node_id, self.broker_epoch, self.offset)
            return True
        if leader in (-1, self._static.node_id):
            return False
        with trio.move_on_after(self._settings.raft.fetch_timeout):
            try:
                await self._peers.ask(leader, "applied", {"epoch": self.broker_epoch, "offset": self.offset})
                return True
            except (Unreachable, Lost):
                pass
        return False

    # -- what other nodes ask ------------------------------------------------------------------------------------

    def _asked(self, sender: int, what: str, body: dict[str, Any], reply: Reply) -> None:
        assert self._nursery is not None, "peers run within"
        self._gone.pop(sender, None)
        if what == "raft" and self._quorum is not None:
            self._quorum.request(sender, body, reply)
        elif what == "applied" and self._active is not None:
            match body:
                case {"epoch": int() as epoch, "offset": int() as offset}:
                    self._active.heard_of(sender, epoch, offset)
            reply({})
        elif what == "describe" and self._quorum is not None and self._quorum.is_leader:
            reply(self._own_description(self._quorum).to_map())
        elif what == "forward" and self._forwarded < FORWARDED_MAX:
            self._nursery.start_soon(self._answer_forwarded, body, reply)
        else:
            reply(error_body(TermEnded(certain=True)))

    async def _answer_forwarded(self, body: dict[str, Any], reply: Reply) -> None:
        self._forwarded += 1
        try:
            if self._active is None:
                raise TermEnded(certain=True)
            request, version = request_from(body)
            outcome = await self._active.handle(request, version)
            reply(answer_body(outcome.reply, version, outcome.end_offset))
        except (KafkaError, MalformedMessage) as error:
            reply(error_body(error))
        finally:
            self._forwarded -= 1

    # -- what becomes of the quorum (`Told`) ---------------------------------------------------------------------

    def committed(self, high_watermark: int) -> None:
        self._applier.committed(high_watermark)

    def installed(self, snapshot: SnapshotId, data: bytes) -> None:
        self._applier.installed(snapshot, data)

    def following(self, leader_id: int, epoch: int) -> None:
        self._leader_has_changed()

    def elected(self, epoch: int, end_offset: int) -> None:
        assert self._nursery is not None, "the quorum runs within"
        self._scope_of_term = trio.CancelScope()
        self._nursery.start_soon(self._lead, epoch, end_offset, self._scope_of_term)

    def deposed(self) -> None:
        self._scope_of_term.cancel()
        self._active = None
        if self._applier.term is not None:
            assert self._quorum is not None, "it told this"
            self._applier.term.end(self._quorum.high_watermark)
        self._leader_has_changed()

    def _leader_has_changed(self) -> None:
        for scope, asked in self._asking.items():
            if asked != self.leader_id:
                scope.cancel()
        self._leader_changed.set()
        self._leader_changed = trio.Event()

    async def _lead(self, epoch: int, end_offset: int, scope: trio.CancelScope) -> None:
        """Be the active controller, once everything that earlier leaders left is applied."""
        with scope:
            await self.until(end_offset)
            assert self._quorum is not None, "it told this"
            term = self._applier.term = Term(epoch, self.image, end_offset, self._quorum.append, self._now_ms)
            active = ActiveController(
                term, self.image, self._static, self._random, self.log_levels, log_end_offset=end_offset
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(active.run)
                if not self.image.cluster_id:
                    await active.found(self._cluster_id)
                await trio.lowlevel.checkpoint()  # the term may be over already
                for node_id, lost_at in self._gone.items():
                    if lost_at > trio.current_time() - LOST_LATELY_S:
                        active.lost_connection(node_id, lost_at)
                self._active = active
                self._leader_has_changed()

    # -- whose cluster this is -----------------------------------------------------------------------------------

    def _learn(self, cluster_id: str) -> None:
        log.info("learned the cluster id", cluster_id=cluster_id)
        self._cluster_id = cluster_id

    def _check_cluster(self, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, ClusterRecord):
                if self._cluster_id not in (None, record.cluster_id):
                    raise WrongDirectory(
                        f"the data directories belong to cluster {self._cluster_id}, the metadata log to "
                        f"{record.cluster_id}: set other log.dirs or metadata.log.dir"
                    )
                self._cluster_id = record.cluster_id

    def _refused(self, node_id: int, reason: str) -> None:
        """Where most of the others will have nothing to do with this node, whoever has started it should know."""
        self._refusing.add(node_id)
        others = [voter for voter in self._peers.voters if voter != self._static.node_id]
        if self.leader_id < 0 and len(self._refusing) * 2 > len(others):
            raise WrongDirectory(reason)

    def _lost(self, node_id: int) -> None:
        now = trio.current_time()
        if self._gone.get(node_id, float("-inf")) < now - LOST_LATELY_S:
            self._gone[node_id] = now
        if self._quorum is not None:
            self._quorum.unreachable(node_id)
        if self._active is not None:
            self._active.lost_connection(node_id, now)


async def _then_cancel(wait: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
    await wait()
    scope.cancel()
