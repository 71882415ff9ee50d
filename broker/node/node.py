"""A node: everything put together, started in order, stopped in order.

    metadata (controller, image) → logs on disk → partitions → coordinators → listeners → ready

Nothing here decides anything; it is where the rooms meet.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

import structlog
import trio

from minikafka.broker.apis.handler_table import HANDLERS
from minikafka.broker.apis.quorum_state import Quorum, quorum_of
from minikafka.broker.apis.services import LogDirectory, Services
from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.idle_connections import close_idle_connections
from minikafka.broker.connections.listener_addresses import advertised_endpoints
from minikafka.broker.connections.request_steps import RequestLog
from minikafka.broker.connections.routes import routes_of
from minikafka.broker.connections.server import Server
from minikafka.broker.coordinator.coordinator_lookup import CoordinatorLookup
from minikafka.broker.coordinator.groups.group_coordinator import TOPIC as OFFSETS_TOPIC
from minikafka.broker.coordinator.groups.group_coordinator import GroupCoordinator
from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.broker.coordinator.internal_topic import GroupEnvironment
from minikafka.broker.node.logging_setup import ROOT
from minikafka.broker.node.process_roles import controller_of
from minikafka.broker.node.producer_ids import ProducerIds
from minikafka.broker.node.registration import Registration
from minikafka.broker.partitions.fetch_sessions import SessionCache
from minikafka.broker.partitions.fetch_wait import steady_ms
from minikafka.broker.partitions.follower_progress import ReplicaEnvironment
from minikafka.broker.partitions.log_housekeeping import Housekeeping, repeat
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.partition_lifecycle import MetadataFollower
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.partitions.preferred_read_replica import is_rack_aware
from minikafka.broker.replication.isr_changes import AlterPartitionManager
from minikafka.broker.replication.replica_fetcher import ReplicaFetcherManager
from minikafka.broker.replication.replication_throttle import FOLLOWER, LEADER, Throttle, throttle_of
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.client.connections.seams import Seams
from minikafka.controller.metadata.cluster_ids import new_id
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import Endpoint
from minikafka.controller.quorum.peer_network import Network
from minikafka.controller.settings.effective_settings import EffectiveSettings
from minikafka.controller.standalone_controller import StandaloneController
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.types import NIL_UUID
from minikafka.storage.disk import Disk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.log_manager import LogManager

if TYPE_CHECKING:
    from minikafka.controller.quorum_controller import QuorumController

log = structlog.get_logger("minikafka")


class Node:
    """One node of a cluster.

    Args:
        config: Its settings.
        disk: Where it keeps everything.
        now_ms: The wall clock.
        random: For ids, and for where partitions are placed.
        network: Between the nodes of a cluster; by default TCP.
        log_levels: Level by logger; changed in place when a client asks for it.

    Attributes:
        partitions: The replicas here.
        controller: Knows the cluster, and has it changed: here where the node is alone, else by the quorum.
        groups: The coordinator of consumer groups.
    """

    def __init__(
        self,
        config: NodeConfig,
        *,
        disk: Disk,
        now_ms: Callable[[], int],
        random: Random,
        network: Network | None = None,
        log_levels: dict[str, str] | None = None,
    ) -> None:
        self.config = config
        self.settings = config.values
        self.now_ms = now_ms
        self._disk = disk
        self._random = random
        self._stopping = trio.Event()
        self._loaded = False
        self._registration: Registration | None = None
        self.controller = controller_of(
            config, disk=disk, network=network, now_ms=now_ms, random=random, log_levels=log_levels
        )
        self.in_force = EffectiveSettings(config.static, self.image)
        self.partitions = Partitions(self.image)
        self.fetch_sessions = SessionCache(config.number("max.incremental.fetch.session.cache.slots"), random)
        self.fetch_max_bytes = config.number("fetch.max.bytes")
        self.rack_aware = is_rack_aware(config.text("replica.selector.class"))
        self.producer_ids = ProducerIds(self.controller.allocate_producer_ids)
        self.coordinators = CoordinatorLookup(self.image, self.controller.handle, config)
        self.routes = routes_of(HANDLERS)
        self.logs = self._log_manager(self.controller.cluster_id)
        self.groups = GroupCoordinator(
            GroupEnvironment(self.image, self.partitions, now_ms),
            GroupSettings.of(config.values),
            random,
            lambda topic: known.id if (known := self.image.topics.get(topic)) else NIL_UUID,
        )
        seams = Seams(now_ms=now_ms, random=random)
        self.leader_throttle = self._throttle(LEADER)
        self.replication = ReplicaFetcherManager(config, self.image, self.broker_epoch, seams, self._throttle(FOLLOWER))
        self.in_sync = AlterPartitionManager(
            config.node_id,
            self.broker_epoch,
            self.partitions,
            self.controller.handle,
            config.number("replica.lag.time.max.ms"),
        )
        self.log_levels = self.controller.log_levels

    @property
    def image(self) -> Image:
        """The cluster's metadata as committed."""
        return self.controller.image

    @property
    def controller_id(self) -> int:
        """Whom clients are told to ask for changes: any broker hands them on."""
        return self.config.node_id

    def broker_epoch(self) -> int:
        """Of this node's registration; -1 before."""
        return self.controller.broker_epoch

    def log_config(self, topic: str) -> LogConfig:
        """The settings in force for a topic's logs."""
        return LogConfig.from_settings(self.in_force.topic(topic))

    def _throttle(self, side: str) -> Throttle:
        number = self.config.number
        samples, sample_s = number("replication.quota.window.num"), number("replication.quota.window.size.seconds")
        return throttle_of(side, self.config.node_id, self.image, samples, sample_s * 1000)

    def log_directories(self) -> list[LogDirectory]:
        """The directories of logs that work."""
        return [
            LogDirectory(one.path, self._disk.total_bytes(one.path), self._disk.free_bytes(one.path))
            for one in self.logs.directories
            if one.failure is None
        ]

    async def quorum(self) -> Quorum:
        """The quorum of the metadata log. Raises RequestTimedOutError where nobody leads it."""
        return await quorum_of(self.config, self.controller, self.logs.directories[0], self.now_ms())

    # -- life ----------------------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `stop`, then leave the disk clean. `task_status` is given the address of the first listener.

        Raises:
            OSError: A directory or a port cannot be had.
            WrongDirectory: The data belongs to another node or cluster.
            KafkaError: The cluster does not take this broker.
        """
        for warning in self.config.warnings():
            log.warning("configuration warning", warning=warning)
        try:
            if self.controller.cluster_id is not None:
                self._load()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_when_stopped, nursery.cancel_scope)
                await nursery.start(self.controller.run)
                if not self._loaded:
                    await self._first_start()
                for task in Housekeeping(self.config, self.logs, self.partitions).tasks():
                    nursery.start_soon(repeat, *task)
                await nursery.start(self.groups.run)
                await nursery.start(self.replication.run)
                nursery.start_soon(self.in_sync.run)
                await self._listen(nursery, task_status)
        finally:
            if self._loaded:
                marks = Housekeeping(self.config, self.logs, self.partitions).high_watermarks()
                self.logs.close(marks, broker_epoch=self.controller.broker_epoch)
            self.controller.close()

    def _log_manager(self, cluster_id: str | None) -> LogManager:
        return LogManager(
            self._disk,
            list(self.config.log_dirs),
            now_ms=self.now_ms,
            random=self._random,
            config_of=self.log_config,
            node_id=self.config.node_id,
            cluster_id=cluster_id,
            producer_expiration_ms=self.config.number("producer.id.expiration.ms"),
        )

    def _load(self) -> None:
        self.logs.load()
        self._loaded = True

    async def _first_start(self) -> None:
        """The cluster tells its id: from now on the data directories are this cluster's."""
        assert not isinstance(self.controller, StandaloneController), "a node alone names its cluster itself"
        self.logs = self._log_manager(await self.controller.wait_for_cluster_id())
        self._load()

    async def _end_when_stopped(self, scope: trio.CancelScope) -> None:
        await self._stopping.wait()
        if self._registration is not None:
            await self._registration.leave()
        if not isinstance(self.controller, StandaloneController):
            await self.controller.resign()
        scope.cancel()

    def _follow_metadata(self, nursery: trio.Nursery) -> None:
        def deleted(removed: list[TopicPartition]) -> None:
            nursery.start_soon(self.groups.partitions_deleted, removed)

        follower = MetadataFollower(
            self.config.node_id,
            self.image,
            self.logs,
            self.partitions,
            self.log_config,
            elected=self._elected,
            resigned=self._resigned,
            deleted=deleted,
            fetchers=self.replication,
            environment=ReplicaEnvironment(
                steady_ms, lambda: self.image.brokers, self.config.number("replica.lag.time.max.ms")
            ),
            isr_change_wanted=self.in_sync.request_change,
        )
        follower.start()
        self.controller.subscribe(follower.apply)

    def _elected(self, partition: Partition) -> None:
        topic, index = partition.topic_partition
        if topic == OFFSETS_TOPIC:
            self.groups.elected(index, partition.leader_epoch)

    def _resigned(self, partition: Partition) -> None:
        topic, index = partition.topic_partition
        if topic == OFFSETS_TOPIC:
            self.groups.resigned(index)

    async def _listen(self, nursery: trio.Nursery, task_status: trio.TaskStatus[str]) -> None:
        server = self._server()
        bound = [(listener, server.listen(listener)) for listener in self.config.client_listeners]
        ports = {listener.name: int(raw.getsockname()[1]) for listener, raw in bound}
        endpoints = advertised_endpoints(self.config.listeners.advertised, ports)
        if isinstance(self.controller, StandaloneController):
            self._follow_metadata(nursery)
            await self.controller.register(endpoints, clean=self.logs.clean)
        else:
            registration = await self._register(nursery, self.controller, endpoints)
            self._follow_metadata(nursery)
            registration.serve()
            await registration.unfenced.wait()
        for listener, raw in bound:
            nursery.start_soon(server.serve, raw, listener.name)
        nursery.start_soon(close_idle_connections, server.connections, self.config.number("connections.max.idle.ms"))
        host, port = bound[0][1].getsockname()[:2]
        task_status.started(f"{host}:{port}")

    async def _register(
        self, nursery: trio.Nursery, controller: "QuorumController", endpoints: Sequence[Endpoint]
    ) -> Registration:
        """Join the cluster. Returns when the image is as new as the registration: by an older one a leader that lost
        its log in a crash would lead again."""
        registration = Registration(
            self.config,
            controller,
            incarnation_id=new_id(self._random),
            endpoints=endpoints,
            previous_broker_epoch=self.logs.previous_broker_epoch,
        )
        await registration.register()
        self._registration = registration
        nursery.start_soon(registration.beat)
        return registration

    def _server(self) -> Server:
        services: Services = self
        number = self.config.number
        told = self.config.text("max.connections.per.ip.overrides") or ""
        overrides = dict(entry.strip().rsplit(":", 1) for entry in told.split(",") if entry.strip())
        return Server(
            Dispatcher(services, self.routes, clock=trio.current_time, observer=RequestLog(self.log_levels, ROOT)),
            size_bytes_max=number("socket.request.max.bytes"),
            connections_max=number("max.connections"),
            connections_max_of=lambda host: int(overrides.get(host, number("max.connections.per.ip"))),
        )

    def stop(self) -> None:
        """Have `run` end, cleanly; returns at once. A broker of a cluster takes its leave first, for some moments."""
        self._stopping.set()
