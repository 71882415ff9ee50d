"""Three nodes that replicate one partition, in memory: for tests of replication and its simulation.

Partitions and logs (on disks that can crash), the followers' `FollowerFetchState`, the leader's Fetch handler with its
sessions and the controller's decisions are the real ones. Only the transport is simulated: a step of a test moves one
message, and each node applies the metadata log when the test says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from minikafka.broker.apis import fetch
from minikafka.broker.apis.services import Fetching
from minikafka.broker.connections.request_context import ConnectionInfo, RequestContext
from minikafka.broker.partitions.batch_validation import produced_batch
from minikafka.broker.partitions.fetch_sessions import SessionCache
from minikafka.broker.partitions.follower_progress import IsrProposal, ReplicaEnvironment
from minikafka.broker.partitions.partition import AppendResult, Partition
from minikafka.broker.partitions.partition_lifecycle import MetadataFollower
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.partitions.replica_logs import ReplicaLogs
from minikafka.broker.replication.follower_fetch_state import FetchSettings, FollowerFetchState, PartitionFetchState
from minikafka.broker.replication.replication_throttle import FOLLOWER, LEADER, throttle_of
from minikafka.controller.decisions import alter_partition, broker_fencing, broker_registration
from minikafka.controller.decisions.bootstrap_records import bootstrap
from minikafka.controller.decisions.broker_fencing import elect_with_returned
from minikafka.controller.decisions.decision import Context
from minikafka.controller.metadata.image import Image, PartitionState
from minikafka.controller.metadata.records import (
    BrokerChange,
    ConfigRecord,
    PartitionChange,
    PartitionRecord,
    Record,
    TopicRecord,
)
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from minikafka.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import batches, encode_batch
from minikafka.protocol.records.record import Record as DataRecord
from minikafka.storage import LogConfig, LogManager, MemoryDisk
from minikafka.storage.logs.log_context import LogContext
from minikafka.storage.steps import at_once
from support.images import CLUSTER_ID, broker, static

TOPIC, TOPIC_ID = "t", b"topic-id-of-16-b"
KEY = TopicPartition(TOPIC, 0)
LAG_MS = 10_000
FETCH_VERSION = 18
NODES = (1, 2, 3)


@dataclass
class Produced:
    """A record that a client sent with acks=all, and what became of it."""

    value: bytes
    partition: Partition
    written: AppendResult
    outcome: str = ""

    def look(self) -> str:
        """ "acked", the error that it was handle_response with, or "" while it waits."""
        if not self.outcome:
            try:
                done = self.partition.is_committed(self.written.last_offset + 1, self.written.leadership_term)
                self.outcome = "acked" if done else ""
            except KafkaError as error:
                self.outcome = ErrorCode(error.code).name
        return self.outcome


@dataclass
class Node:
    """One broker. `start` and `crash` end and begin lives; the disk outlives them."""

    world: World
    node_id: int
    disk: MemoryDisk
    alive: bool = False
    broker_epoch: int = -1
    applied: int = 0
    image: Image = field(default_factory=Image)
    fetch_states: dict[int, FollowerFetchState] = field(default_factory=dict)

    def start(self) -> None:
        """Open the logs, register (fenced at first), catch up with the metadata as far as that, and only then follow
        it: by older metadata, a leader that lost its log would lead with what is left."""
        self.alive, self.applied, self.image, self.fetch_states = True, 0, Image(), {}
        self.random = Random(f"{self.node_id}/{self.world.now_ms}")
        self.logs = LogManager(
            LogContext(self.disk, self.world.clock, self.random), ["/data"], config_of=lambda topic: self.world.config
        )
        self.logs.load()
        self.partitions = Partitions(self.image)
        self.follower = MetadataFollower(
            self.node_id,
            self.image,
            ReplicaLogs(
                self.node_id,
                self.image,
                self.logs,
                lambda topic: self.world.config,
                environment=ReplicaEnvironment(self.world.clock, lambda: self.image.brokers, LAG_MS),
            ),
            self.partitions,
            fetchers=self,
        )
        leader_throttle = throttle_of(LEADER, self.node_id, self.image, 10, 1000)
        self.fetching = Fetching(SessionCache(100, self.random), 1 << 20, self.world.rack_aware, leader_throttle)
        self.follower_throttle = throttle_of(FOLLOWER, self.node_id, self.image, 10, 1000)
        self.broker_epoch = self.world.register(self.node_id, self.logs.failures.previous_broker_epoch)
        for record in self.world.log:
            self.image.apply(record)
        self.applied = len(self.world.log)
        at_once(self.follower.start())

    def kill(self) -> None:
        """kill -9: the page cache stays. Its clean-shutdown marker is gone already."""
        self.alive = False
        self.disk.unlock_all()

    def crash(self) -> None:
        """The power goes: what was not synced may be lost."""
        self.alive = False
        self.disk.crash()

    def stop(self) -> None:
        """A clean shutdown, as far as the logs go."""
        self.logs.close({KEY: self.partition.high_watermark}, broker_epoch=self.broker_epoch)
        self.alive = False

    def catch_up(self, count: int | None = None) -> None:
        """Learn of so many records of the metadata log; None for all."""
        end = len(self.world.log) if count is None else min(self.applied + count, len(self.world.log))
        while self.applied < end:
            record = self.world.log[self.applied]
            self.applied += 1
            self.image.apply(record)
            at_once(self.follower.apply([record]))

    @property
    def partition(self) -> Partition:
        found = self.partitions.get(TOPIC, 0)
        assert found is not None
        return found

    @property
    def leads(self) -> bool:
        found = self.partitions.get(TOPIC, 0) if self.alive else None
        return found is not None and found.is_leader

    def values(self, below: int | None = None) -> list[tuple[int, int, bytes]]:
        """(offset, leader epoch, value) of everything in the log."""
        log, found = self.partition.log, []
        offset = log.start_offset
        while offset < log.end_offset:
            part = log.read(offset, max_bytes=1 << 20)
            assert part is not None
            for batch in batches(part.read()):
                batch.check_crc()
                found += [(one.offset, batch.leader_epoch, one.value or b"") for one in batch.records()]
                offset = batch.next_offset
        return [one for one in found if below is None or one[0] < below]

    # -- copies (what MetadataFollower tells) --------------------------------------------------------------------

    def follow(self, partition: Partition) -> None:
        self.unfollow(partition)
        if partition.leader_id >= 0:
            settings = FetchSettings(self.node_id, max_bytes=self.world.fetch_bytes)
            fresh = FollowerFetchState(settings, self.follower_throttle)
            self.fetch_states.setdefault(partition.leader_id, fresh).add(partition)

    def unfollow(self, partition: Partition) -> None:
        for fetch_state in self.fetch_states.values():
            fetch_state.remove(partition)

    def broker_changed(self, node_id: int) -> None:
        pass

    # -- clients -------------------------------------------------------------------------------------------------

    def produce(self, value: bytes, *, acks: int = -1) -> Produced:
        """Raises KafkaError where the leader refuses."""
        data = bytearray(encode_batch([DataRecord(0, self.world.now_ms, None, value, ())]))
        batch = produced_batch(memoryview(data), 9)
        written = self.partition.append(batch, now_ms=self.world.now_ms, acks=acks)
        made = Produced(value, self.partition, written)
        if acks == -1:
            self.world.produced.append(made)
        return made

    def consume(self, offset: int = 0) -> list[tuple[int, bytes]]:
        """What a consumer sees from `offset` on; any replica will do."""
        found, partition = [], self.partition
        offset = max(offset, partition.log.start_offset)
        while offset < partition.high_watermark:
            read = partition.read(offset, max_bytes=1 << 20, leader_only=False)
            records: Any = read.records
            for batch in batches(records.read() if len(records) else b""):
                found += [(one.offset, one.value or b"") for one in batch.records()]
                offset = batch.next_offset
        return found

    # -- replication ---------------------------------------------------------------------------------------------

    def ask(self) -> tuple[Node, FollowerFetchState, FetchRequest] | None:
        """The next fetch of this follower, on its way."""
        found = self.partitions.get(TOPIC, 0)
        fetch_state = None if found is None else self.fetch_states.get(found.leader_id)
        if fetch_state is None or fetch_state.due_ms(self.world.now_ms) != 0:
            return None
        leader = self.world.nodes[self.partition.leader_id]
        return leader, fetch_state, fetch_state.request(self.world.now_ms, self.broker_epoch)

    def now_ms(self) -> int:
        return self.world.clock()

    def context(self) -> RequestContext[fetch.FetchServices]:
        """The surroundings of a follower's fetch from this node."""
        return RequestContext(self, FETCH_VERSION, "follower", ConnectionInfo("PLAINTEXT", "127.0.0.1"))

    async def answer(self, request: FetchRequest) -> FetchResponse:
        """What this node, as a leader, says to a fetch."""
        request.max_wait_ms = 0
        try:
            response = await fetch.handle(request, self.context())
        except KafkaError as error:
            return FetchResponse(error_code=error.code)
        for topic in response.responses:
            for one in topic.partitions:
                records: Any = one.records
                one.records = memoryview(bytearray(records.read() if len(records) else b""))
        return response

    def take(self, fetch_state: FollowerFetchState, response: FetchResponse) -> None:
        """A leader's answer came."""
        outcome = at_once(fetch_state.handle_response(response, self.world.now_ms))
        for state in outcome.out_of_range:
            self._handle_out_of_range(state)

    def _handle_out_of_range(self, state: PartitionFetchState) -> None:
        leader = self.world.nodes[self.partition.leader_id]
        if not leader.leads or leader.partition.leader_epoch != state.leader_epoch:
            return
        log, end = leader.partition.log, self.partition.log.end_offset
        if log.end_offset < end:
            self.partition.truncate_to(log.end_offset, leader_epoch=state.leader_epoch)
        elif log.start_offset > end:
            self.partition.truncate_fully_and_start_at(log.start_offset, leader_epoch=state.leader_epoch)

    async def fetch(self) -> bool:
        """Ask the leader and take its answer; False if there is nobody to ask."""
        asked = self.ask()
        if asked is None:
            return False
        leader, fetch_state, request = asked
        if not leader.alive:
            fetch_state.disconnected()
            return False
        self.take(fetch_state, await leader.answer(request))
        return True

    # -- in-sync replicas ----------------------------------------------------------------------------------------

    def propose(self) -> IsrProposal | None:
        """What this leader would ask the controller for; pending from now on."""
        return self.partition.propose_isr_change()

    def settle(self, proposal: IsrProposal, error: ErrorCode) -> None:
        """The controller's answer to a proposal came; its metadata comes by itself."""
        if error in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST):
            self.partition.isr_change_rejected(proposal)

    def alter(self) -> ErrorCode | None:
        """Propose, ask, and learn of what came of it; None if there was nothing to propose."""
        proposal = self.propose()
        if proposal is None:
            return None
        error = self.world.alter(self, proposal)
        self.catch_up()
        self.settle(proposal, error)
        return error


class World:
    """Nodes 1 to 3, the metadata log, and a controller that never fails.

    Attributes:
        log: Committed metadata records; `image` is what the controller knows.
        produced: Everything that was sent with acks=all.
        config: The topic's settings.
    """

    def __init__(
        self,
        seed: object = 0,
        *,
        replicas: tuple[int, ...] = NODES,
        isr: tuple[int, ...] | None = None,
        min_isr: int = 1,
        fetch_bytes: int = 1 << 20,
        unclean: bool = False,
        rack_aware: bool = False,
    ) -> None:
        self.now_ms = 1_000_000
        self.rack_aware = rack_aware
        self.random = Random(str(seed))
        self.fetch_bytes = fetch_bytes
        self.config = LogConfig(
            min_insync_replicas=min_isr, segment_bytes=4096, segment_index_bytes=1200, file_delete_delay_ms=0
        )
        self.image = Image()
        self.log: list[Record] = []
        self.produced: list[Produced] = []
        self.context = Context(static(), Random(0), 3)
        settings = [ConfigRecord(2, TOPIC, "min.insync.replicas", str(min_isr))]
        if unclean:
            settings.append(ConfigRecord(2, TOPIC, "unclean.leader.election.enable", "true"))
        self.commit(*bootstrap(CLUSTER_ID, static()), *[broker(node, epoch=node) for node in NODES])
        placed = PartitionRecord(TOPIC_ID, 0, replicas, isr or replicas, (isr or replicas)[0])
        self.commit(TopicRecord(TOPIC_ID, TOPIC), *settings, placed)
        self.nodes = {node: Node(self, node, MemoryDisk(Random(f"{seed}/{node}"))) for node in NODES}
        for node in self.nodes.values():
            node.disk.make_directory("/data")
            node.disk.sync_directory("/")
        self._begin()

    def _begin(self) -> None:
        """The first start: nobody registers anew, as if all had long been there."""
        register, self.register = self.register, lambda node_id, previous: node_id  # type: ignore[method-assign]
        for node in self.nodes.values():
            node.start()
        self.register = register  # type: ignore[method-assign]

    def clock(self) -> int:
        return self.now_ms

    # -- the controller ------------------------------------------------------------------------------------------

    def commit(self, *records: Record) -> None:
        for record in records:
            self.image.apply(record)
            self.log.append(record)

    @property
    def state(self) -> PartitionState:
        return self.image.topics[TOPIC].partitions[0]

    def register(self, node_id: int, previous_epoch: int) -> int:
        """A broker registers, fenced; after an unclean end it may no longer lead what it was in sync for."""
        request = BrokerRegistrationRequest(
            broker_id=node_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.random.randbytes(16),
            listeners=[Listener(name="PLAINTEXT", host="localhost", port=9091 + node_id)],
            rack=None,
            previous_broker_epoch=previous_epoch,
        )
        decision = broker_registration.decide(self.image, request, self.context)
        assert not decision.reply.error_code
        self.commit(*decision.records)
        return decision.reply.broker_epoch

    def unfence(self, node_id: int) -> None:
        """A heartbeat of a broker that has caught up."""
        known = self.image.brokers[node_id]
        if known.fenced:
            back = BrokerChange(node_id, known.epoch, fenced=False, in_controlled_shutdown=False)
            self.commit(back)
            self.commit(*elect_with_returned(self.image, node_id, self.context))

    def fence(self, node_id: int) -> None:
        """The session of a broker is over."""
        if not self.image.brokers[node_id].fenced:
            self.commit(*broker_fencing.decide(self.image, node_id, self.context).records)

    def elect(self, node_id: int, isr: tuple[int, ...] | None = None) -> None:
        """Make a node the leader, whatever else there is."""
        self.commit(PartitionChange(TOPIC_ID, 0, leader=node_id, isr=isr))

    def alter(self, leader: Node, proposal: IsrProposal) -> ErrorCode:
        """AlterPartition arrives; the error of the partition."""
        isr = [BrokerState(broker_id=node_id, broker_epoch=epoch) for node_id, epoch in proposal.isr]
        asked = RequestPartitionData(
            partition_index=0,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            new_isr_with_epochs=isr,
        )
        request = AlterPartitionRequest(
            broker_id=leader.node_id,
            broker_epoch=leader.broker_epoch,
            topics=[RequestTopicData(topic_id=TOPIC_ID, partitions=[asked])],
        )
        decision = alter_partition.decide(self.image, request, self.context)
        self.commit(*decision.records)
        if decision.reply.error_code:
            return ErrorCode(decision.reply.error_code)
        return ErrorCode(decision.reply.topics[0].partitions[0].error_code)

    # -- everything ----------------------------------------------------------------------------------------------

    @property
    def leader(self) -> Node:
        return self.nodes[self.state.leader]

    def spread(self) -> None:
        """Every node that lives learns of all metadata."""
        for node in self.nodes.values():
            if node.alive:
                node.catch_up()

    async def replicate(self, rounds: int = 3, *node_ids: int) -> None:
        """All followers (or those named) fetch, again and again."""
        for _ in range(rounds):
            for node in self.nodes.values():
                if node.alive and not node.leads and (not node_ids or node.node_id in node_ids):
                    await node.fetch()

    async def settle(self, done: Callable[[], bool], rounds: int = 60) -> None:
        """Heal: all metadata known, fetches and AlterPartition until `done`."""
        for _ in range(rounds):
            self.now_ms += 500
            self.spread()
            await self.replicate(1)
            for node in self.nodes.values():
                if node.leads:
                    node.alter()
            if done():
                return
        raise AssertionError("the cluster did not settle")
