"""`QuorumController`, the controller on every node: keeps the metadata image and forwards changes.

A request that changes metadata is forwarded to the active controller, on the node that leads the quorum; the response
is returned once this node's own image has the change. While there is no active controller the request is retried if it
was certainly not carried out, or if it is idempotent. A lone node is a quorum of one. Trio: starts the quorum's tasks.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import structlog
import trio

from minikafka.controller.active.active_controller import ActiveController
from minikafka.controller.active.forwarded_requests import (
    ForwardedRequests,
    error_body,
    is_idempotent,
    request_body,
    response_from,
)
from minikafka.controller.active.leadership_term import LeadershipTerm, Outcome, ReceiverLost, TermEnded
from minikafka.controller.active.request_routing import carry_out
from minikafka.controller.decisions.decision import Context
from minikafka.controller.decisions.forwarding_rules import splitting
from minikafka.controller.decisions.producer_id_blocks import ProducerIdBlock
from minikafka.controller.decisions.request_table import DESCRIPTIONS, described
from minikafka.controller.metadata.cluster_ids import check_metadata_directory, known_cluster_id, known_directory_id
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import Record
from minikafka.controller.metadata.subscribers import Subscriber
from minikafka.controller.quorum.broker_lease import BrokerLease, contact_answer
from minikafka.controller.quorum.cluster_identity import ClusterIdentity
from minikafka.controller.quorum.describe_quorum import QuorumDescriber, description
from minikafka.controller.quorum.handshake import ConnectionLost
from minikafka.controller.quorum.lost_connections import LostConnections
from minikafka.controller.quorum.membership import QuorumMembership
from minikafka.controller.quorum.metadata_applier import MetadataApplier
from minikafka.controller.quorum.node_logins import PeerSecurity
from minikafka.controller.quorum.peer_connection import Reply
from minikafka.controller.quorum.peer_network import Network
from minikafka.controller.quorum.peers import Peers, ServeClient, Unreachable
from minikafka.controller.quorum.quorum_description import QuorumDescription
from minikafka.controller.quorum.quorum_settings import QuorumSettings
from minikafka.controller.quorum.quorum_wait import tell_of_waiting
from minikafka.controller.quorum.raft_driver import RaftDriver, confirmed
from minikafka.controller.quorum.raft_log import StoredRaftLog
from minikafka.controller.quorum.voter_requests import VoterRequests
from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.controller.raft.voter_set import VoterSet
from minikafka.controller.security.access import UNRESTRICTED, Access
from minikafka.controller.security.standard_authorizer import authorizer_of
from minikafka.controller.settings.metadata_log_settings import (
    data_directories,
    metadata_directory,
    metadata_log_config,
)
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.errors import RequestTimedOutError, error_for
from minikafka.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from minikafka.storage.directories.directory_identity import WrongDirectory
from minikafka.storage.disks.disk import Disk
from minikafka.storage.steps import in_steps
from minikafka.storage.waits import in_task

__all__ = ["QuorumController"]

log = structlog.get_logger("minikafka.controller")

RETRY_S, RETRY_MAX_S = 0.05, 0.5
RESPONSE_GRACE_S = 1.0
"""The active controller enforces a request's timeout; its response must still arrive in time."""
FORWARDED_MAX, INCARNATION_SIZE = 1000, 16
LOST_MAX = 2
"""After so many lost receivers a request is not sent again, since the request itself may make the controllers fail."""


class QuorumController:
    """The controller of a node. `run` must have started before the first request.

    Args:
        static: the settings that the node was started with.
        settings: the settings of the quorum.
        disk: the disk of the metadata log.
        network: connects the nodes.
        now_ms: returns the time of the wall clock in milliseconds.
        random: the source of ids, replica placement and election timeouts.
        log_levels: level by logger of this node; changed in place.
        set_log_level: called with logger and level when a level is changed.

    Attributes:
        stored: the metadata log on disk.
        membership: the membership of this node in the quorum.
        authorizer: decides what clients may do; None if everything is allowed.
        broker_epoch: the epoch of this node's broker registration, set by `broker/node/registration.py`; -1 before.

    Raises:
        WrongDirectory, UnreadableRecord: the data directories cannot be used.
        BlockingIOError: another process has the metadata log open.
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
        self._settings, self._network = settings, network
        self._now_ms, self._random = now_ms, random
        self._set_log_level = set_log_level
        directory, named = metadata_directory(static), bool(settings.voters)
        directories = list(dict.fromkeys((*data_directories(static), directory)))
        self._cluster = ClusterIdentity(known_cluster_id(disk, directories, static.node_id))
        if settings.is_controller:
            check_metadata_directory(disk, directory, data_directories(static), has_fixed_voters=named)
        self.stored = StoredRaftLog.open(disk, directory, metadata_log_config(static), now_ms=now_ms)
        self._applier = MetadataApplier(self.stored, static.number("metadata.log.max.record.bytes.between.snapshots"))
        self._applier.subscribe(self._cluster.check_records)
        self._applier.subscribe(self._apply_quotas)
        self.authorizer = authorizer_of(static, self._applier, self.log_levels, lambda: confirmed(self._raft), now_ms)
        if self.image.cluster_id:
            self._cluster.check(self.image.cluster_id)
        self._cluster.refuse_others(self.stored.first_records())
        self._peers = self._new_peers()
        session_s = static.number("broker.session.timeout.ms") / 1000
        self._lost = LostConnections(BrokerLease(self._peers.request, session_s, settings.raft.fetch_timeout))
        find_id = partial(known_directory_id, disk, directory)
        voters = self.stored.history.latest
        self.membership = QuorumMembership(static.node_id, settings, self._peers, voters, find_id)
        self._raft: RaftDriver | None = None
        self._describer: QuorumDescriber | None = None
        self._voter_requests: VoterRequests | None = None
        self._active: ActiveController | None = None
        self._term_scope = trio.CancelScope()
        self._leader_changed = trio.Event()
        self._forwarding: dict[trio.CancelScope, int] = {}
        self._refused_by: set[int] = set()
        self._forwarded = ForwardedRequests(self._carry_out, disk, self.authorizer)
        self._nursery: trio.Nursery | None = None

    def _new_peers(self) -> Peers:
        return Peers(
            self._static.node_id,
            network=self._network,
            voters=self._settings.voters,
            cluster_id=lambda: self._cluster.id,
            on_cluster_id=self._cluster.learn,
            on_request=self._on_request,
            on_connection_lost=self._on_connection_lost,
            on_refused=self._on_refused,
        )

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def image(self) -> Image:
        """The metadata that is committed and applied on this node."""
        return self._applier.image

    @property
    def offset(self) -> int:
        """The offset before which every record is applied on this node."""
        return self._applier.progress.offset

    @property
    def committed_offset(self) -> int:
        """The offset before which every record is committed, as far as this node knows."""
        return 0 if self._raft is None else self._raft.high_watermark

    @property
    def cluster_id(self) -> str | None:
        """The cluster id; None until the first leader has generated it and this node has learned it."""
        return self._cluster.id

    @property
    def leader_id(self) -> int:
        """The id of the node of the active controller; -1 if unknown."""
        return -1 if self._raft is None else self._raft.leader_id

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the quorum."""
        return 0 if self._raft is None else self._raft.epoch

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._active is not None

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with committed records, after the image and before requests are answered; see `notify`."""
        self._applier.subscribe(subscriber)

    async def wait_applied(self, offset: int) -> None:
        """Wait until everything before `offset` is applied on this node."""
        await self._applier.progress.wait_for(offset)

    async def wait_advanced(self) -> None:
        """Wait until more of the metadata log is applied on this node."""
        await self._applier.progress.wait_advanced()

    async def wait_for_cluster_id(self) -> str:
        """Wait until this node's image has the cluster id; returns it."""
        while not self.image.cluster_id:
            await self.wait_advanced()
        return self.image.cluster_id

    # -- running and requests ------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled. After any exception the node must stop.

        Raises:
            OSError: a port cannot be bound.
            WrongDirectory: this node belongs to another cluster than the others, or its node id is taken.
        """
        listeners: list[trio.abc.Listener[trio.abc.Stream]] = []
        for host, port in self._settings.listen_on:
            listeners += await self._network.listen(host, port)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await nursery.start(self._peers.run, listeners)
            task_status.started()
            await self._meet_others(nursery)
            raft = self._raft = RaftDriver(
                node_id=self._static.node_id,
                voters=self.membership.static_voters,
                stored=self.stored,
                settings=self._settings.raft,
                random=self._random,
                send_request=lambda peer, body: self._peers.request(peer, "raft", body),
                listener=self,
                wall_clock_ms=self._now_ms,
                own=self.membership.own,
            )
            self.membership.start(raft)
            self._describer = QuorumDescriber(raft, self._peers, self._now_ms, self._settings.raft.fetch_timeout)
            timeout_ms = self._static.number("controller.quorum.request.timeout.ms")
            self._voter_requests = VoterRequests(raft, self.membership, timeout_ms / 1000)
            for task in (raft.run, self._applier.run, self._report_progress):
                nursery.start_soon(task)

    async def _meet_others(self, nursery: trio.Nursery) -> None:
        """Start the tasks that look for other nodes, if there are any; discover the voters if nothing names them."""
        if self._settings.is_alone:
            return
        bootstrap, leader = self._settings.bootstrap, lambda: self.leader_id
        nursery.start_soon(tell_of_waiting, self._static.node_id, self._peers, bootstrap, leader)
        if self.membership.must_discover:
            await self.membership.discover(self._random.randbytes(INCARNATION_SIZE))
        nursery.start_soon(self.membership.find_addresses)
        nursery.start_soon(self.membership.keep_current, self._attempt)

    async def handle(self, request: Any, version: int, access: Access = UNRESTRICTED) -> Any:
        """Answer a request whose client has `access`, once the changes of the request are applied on this node.

        Raises KafkaError: NOT_CONTROLLER if the outcome is unknown, REQUEST_TIMED_OUT if none was active in time.
        """
        if type(request) in DESCRIPTIONS:
            return await in_steps(described(self.image, request, version, access))
        context = Context(self._static, self._random, version, self.log_levels, access=access)
        parts = await in_steps(splitting(self.image, request, context))
        for logger, level in parts.log_levels.items():
            self.log_levels[logger] = level
            self._set_log_level(logger, level)
        return parts.merge(None if parts.request is None else await self._forward(parts.request, version, access))

    async def handle_here(self, request: Any, version: int, access: Access) -> Any:
        """Answer a request here, without forwarding. Raises TermEnded unless this node is the active controller."""
        if type(request) in DESCRIPTIONS:
            return await in_steps(described(self.image, request, version, access))
        return (await self._carry_out(request, version, access)).reply

    def serve_clients(self, serve: ServeClient) -> None:
        """Have `serve` serve the connections to the controller listener that speak Kafka's protocol."""
        self._peers.serve_client = serve

    @property
    def security(self) -> PeerSecurity:
        """Whether nodes log in, and which are admitted; by default all are, without a login."""
        return self._peers.security

    def secure(self, security: PeerSecurity) -> None:
        """Have nodes log in, and only some of them admitted."""
        self._peers.security = security

    async def _forward(self, request: Any, version: int, access: Access) -> Any:
        """The response of the active controller. Retries where that is safe, with growing pauses, as many may wait."""
        # A request without time left is refused by its decision, with the error of its API.
        timeout_ms = max(0, getattr(request, "timeout_ms", 0)) or max(0, self._static.number("request.timeout.ms"))
        waits_s, lost = RETRY_S, 0
        await in_task()
        with trio.move_on_after(timeout_ms / 1000 + RESPONSE_GRACE_S):
            while True:
                changed = self._leader_changed
                try:
                    response, offset = await self._attempt(request, version, access)
                    await self.wait_applied(offset)
                    return response
                except TermEnded as error:
                    lost += isinstance(error, ReceiverLost)
                    if lost == LOST_MAX or not (error.certain or is_idempotent(request)):
                        raise
                with trio.move_on_after(waits_s):
                    await changed.wait()
                waits_s = min(2 * waits_s, RETRY_MAX_S)
        raise RequestTimedOutError("there was no active controller in time")

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """The next block of producer ids for this node. Raises KafkaError."""
        request = AllocateProducerIdsRequest(broker_id=self._static.node_id, broker_epoch=self.broker_epoch)
        response = await self.handle(request, 0)
        if response.error_code:
            raise error_for(response.error_code)
        return ProducerIdBlock(response.producer_id_start, response.producer_id_len)

    async def describe_quorum(self) -> QuorumDescription:
        """The leader's view of the quorum. Raises RequestTimedOutError if no leader responds in time."""
        return await description(lambda: self._describer, self._static.number("request.timeout.ms") / 1000)

    @property
    def voters(self) -> Mapping[int, tuple[str, int]]:
        """The addresses of the controllers by id; empty before they are discovered."""
        return self._peers.voters

    async def resign(self) -> None:
        """Give up leadership of the quorum, if this node has it, and wait until followers can have noticed."""
        if self._raft is not None and self._raft.is_leader:
            self._raft.resign()
            await trio.sleep(RETRY_S)

    def close(self) -> None:
        """Close the log."""
        self.stored.close()

    # -- requests to the active controller -----------------------------------------------------------------------

    async def _attempt(self, request: Any, version: int, access: Access = UNRESTRICTED) -> tuple[Any, int]:
        """The response, and the offset up to which the log must be applied to see it. Raises KafkaError, TermEnded."""
        if self._active is not None:
            outcome = await self._carry_out(request, version, access)
            return outcome.reply, outcome.end_offset
        leader = self.leader_id
        if leader in (-1, self._static.node_id):
            raise TermEnded(certain=True)
        scope = trio.CancelScope()
        self._forwarding[scope] = leader
        try:
            with scope:
                body = await self._peers.request(leader, "forward", request_body(request, version, access))
                return response_from(request, version, body)
        except Unreachable:
            raise TermEnded(certain=True) from None
        except ConnectionLost:
            raise ReceiverLost from None
        finally:
            del self._forwarding[scope]
        raise TermEnded(certain=False)  # the leader has changed meanwhile

    async def _report_progress(self) -> None:
        """Report the applied offset of this broker to the active controller, where CreateTopics waits for it."""
        while True:
            changed, offset = self._leader_changed, self.offset
            if self.broker_epoch >= 0 and not await self.report_contact():
                await trio.sleep(RETRY_S)
            elif self.offset == offset and self._leader_changed is changed:
                await self._applier.progress.wait_advanced()

    async def report_contact(self) -> bool:
        """Report contact and applied offset of this broker to the active controller; returns whether that succeeded.

        The report is not queued behind decisions, so it counts even if the controller is busy.
        """
        leader = self.leader_id
        if self._active is not None:
            self._active.contact(self._static.node_id, self.broker_epoch, self.offset)
            return True
        if leader in (-1, self._static.node_id):
            return False
        return await self._lost.lease.report(leader, {"epoch": self.broker_epoch, "offset": self.offset})

    def has_lease(self) -> bool:
        """Whether no other broker can have been elected in the place of this one; see `BrokerLease`."""
        if self._active is None or self._raft is None:
            return self._lost.lease.holds
        return self._raft.surely_leads

    def _on_request(self, sender: int, kind: str, body: dict[str, Any], reply: Reply) -> None:
        assert self._nursery is not None, "peers run in it"
        self._lost.heard(sender)
        if kind == "raft" and self._raft is not None:
            self._raft.request(sender, body, reply)
        elif kind == "applied" and self._active is not None:
            was_live = self._active.contacted(sender, body)
            reply(contact_answer(confirmed=was_live and self.has_lease()))
        elif kind == "describe" and self._describer is not None and self.leader_id == self._static.node_id:
            reply(self._describer.as_leader().to_map())
        elif kind == "forward" and self._forwarded.unanswered < FORWARDED_MAX:
            self._nursery.start_soon(self._forwarded.answer, body, reply)
        else:
            reply(error_body(TermEnded(certain=True)))

    async def _carry_out(self, request: Any, version: int, access: Access) -> Outcome[Any]:
        await in_task()
        if self._active is None:
            raise TermEnded(certain=True)
        return await carry_out(self._voter_requests, self._active, request, version, access)

    # -- QuorumListener ------------------------------------------------------------------------------------------

    def committed(self, high_watermark: int) -> None:
        self._applier.committed(high_watermark)

    def voters_changed(self, voters: VoterSet) -> None:
        self.membership.voters_changed(voters)

    def installed(self, snapshot: SnapshotId, data: bytes) -> None:
        self._applier.installed(snapshot, data)

    def following(self, leader_id: int, epoch: int) -> None:
        self._on_leader_change()

    def elected(self, epoch: int, end_offset: int) -> None:
        assert self._nursery is not None, "the driver runs in it"
        self._term_scope = trio.CancelScope()
        self._nursery.start_soon(self._lead, epoch, end_offset, self._term_scope)

    def deposed(self) -> None:
        self._term_scope.cancel()
        self._active = None
        if self._applier.term is not None:
            assert self._raft is not None, "the driver called this"
            self._applier.term.end(self._raft.high_watermark)
        self._on_leader_change()

    def _on_leader_change(self) -> None:
        for scope, leader in self._forwarding.items():
            if leader != self.leader_id:
                scope.cancel()
        self._leader_changed.set()
        self._leader_changed = trio.Event()
        self._applier.progress.wake()

    async def _lead(self, epoch: int, end_offset: int, scope: trio.CancelScope) -> None:
        """Be the active controller, once everything that earlier leaders committed is applied."""
        with scope:
            await self.wait_applied(end_offset)
            assert self._raft is not None, "the driver called this"
            term = self._applier.term = LeadershipTerm(
                epoch,
                self.image,
                end_offset,
                self._raft.append,
                self._now_ms,
                may_refuse=lambda: len(self.voters) == 1 and not self.stored.is_offline,
            )
            voters, own_epoch = lambda: self.voters, lambda: self.broker_epoch
            active = ActiveController(term, self.image, self._static, self._random, self.log_levels, voters, own_epoch)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(active.run)
                if not self.image.cluster_id:
                    await active.create_cluster(self._cluster.id)
                await trio.lowlevel.checkpoint()  # the term may have ended already
                for node_id, lost_at in self._lost.recent(trio.current_time()):
                    active.lost_connection(node_id, lost_at)
                self._active = active
                self._on_leader_change()

    async def _apply_quotas(self, records: Sequence[Record]) -> None:
        if self._active is not None:
            await self._active.apply_quotas(records)

    def _on_refused(self, node_id: int, reason: str) -> None:
        """Stop the node if most of the other voters refuse it. In a dynamic quorum addresses may be outdated."""
        self._refused_by.add(node_id)
        others = [voter for voter in self._peers.voters if voter != self._static.node_id]
        if not self.membership.kraft_version and self.leader_id < 0 and len(self._refused_by) * 2 > len(others):
            raise WrongDirectory(reason)

    def _on_connection_lost(self, node_id: int, is_dead: bool) -> None:
        self._lost.lost(node_id, now := trio.current_time(), is_dead=is_dead)
        if not is_dead:
            return
        if self._raft is not None:
            self._raft.unreachable(node_id)
        if self._active is not None:
            self._active.lost_connection(node_id, now)
