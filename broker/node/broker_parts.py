"""`BrokerParts`: creates and connects the parts of a node that serves clients; `node.py` starts and stops them.

Handlers receive `BrokerParts` as their services: it offers all services of `broker/apis/services.py`.
"""

from collections.abc import Iterable

import trio

from minikafka.broker.apis import usual_produce
from minikafka.broker.apis.handler_table import HANDLERS
from minikafka.broker.apis.quorum_state import KraftVersions, Quorum, kraft_versions_of, quorum_of
from minikafka.broker.apis.services import LogDirectory, Services
from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.large_messages import LargeMessages
from minikafka.broker.connections.long_polls import LongPolls
from minikafka.broker.connections.request_log import RequestLog
from minikafka.broker.connections.request_memory import RequestMemory
from minikafka.broker.connections.request_times import RequestTimes
from minikafka.broker.connections.routes import Route, routes_of
from minikafka.broker.connections.server import Server
from minikafka.broker.coordinator.coordinator_lookup import CoordinatorLookup
from minikafka.broker.coordinator.groups.group_coordinator import TOPIC as OFFSETS_TOPIC
from minikafka.broker.coordinator.groups.group_coordinator import GroupCoordinator
from minikafka.broker.coordinator.groups.group_settings import ConsumerGroupTimes, GroupSettings
from minikafka.broker.coordinator.internal_topic import InternalTopic
from minikafka.broker.coordinator.transactions.transaction_coordinator import TOPIC as TRANSACTIONS_TOPIC
from minikafka.broker.node.controller_factory import controller_of
from minikafka.broker.node.directory_reports import DirectoryReports
from minikafka.broker.node.logging_setup import ROOT
from minikafka.broker.node.producer_ids import ProducerIds
from minikafka.broker.node.runtime_settings import RuntimeSettings
from minikafka.broker.node.system import System
from minikafka.broker.node.transaction_parts import TransactionParts
from minikafka.broker.partitions.fetch_sessions import SessionCache, usable_slots
from minikafka.broker.partitions.follower_progress import ReplicaEnvironment
from minikafka.broker.partitions.log_cleaner import LogCleaner
from minikafka.broker.partitions.log_housekeeping import Housekeeping
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.partition_lifecycle import MetadataFollower, ReplicaEvents
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.partitions.preferred_read_replica import is_rack_aware
from minikafka.broker.partitions.replica_logs import ReplicaLogs
from minikafka.broker.partitions.request_waiters import steady_ms
from minikafka.broker.replication.isr_changes import AlterPartitionManager
from minikafka.broker.replication.replica_fetcher import ReplicaFetcherManager
from minikafka.broker.replication.replica_moves import ReplicaMoves
from minikafka.broker.replication.replication_throttle import FOLLOWER, LEADER, Throttle, move_throttle, throttle_of
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.broker.telemetry.clients import TelemetryClients
from minikafka.client.connections.seams import Seams
from minikafka.controller.decisions.broker_config_validation import CORDONED, CORDONED_ALL
from minikafka.controller.metadata.features import cordons_directories
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord, FeatureRecord, Record
from minikafka.controller.settings.effective_settings import EffectiveSettings, ResourceType
from minikafka.controller.settings.metadata_log_settings import metadata_directory
from minikafka.protocol.apis import TELEMETRY_KEYS
from minikafka.protocol.settings.registry import UNSTABLE_VERSIONS
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log_context import LogContext


class BrokerParts:
    """The parts of a broker, and the services that its handlers use. For the arguments see `Node`.

    Attributes:
        controller: Holds the cluster's metadata and changes the metadata, here or through the quorum.
        logs: The logs on disk. On the first start in a cluster the cluster id is unknown until `name_cluster`.
        runtime_settings: Applies settings that change while the node runs.
        partitions: The replicas on this node.
        groups: The coordinator of consumer groups.
        transactions: The coordinator of transactions.
        replication: Fetches from other leaders.
        isr_changes: Has the controller change the ISR of partitions that this node leads.
        replica_moves: Moves replicas between data directories.
        directory_reports: Tells the controller of failed data directories, and where the replicas of this node are.
        telemetry: The clients that push metrics.
        times: The durations of the requests of clients; None without `metrics.listener`.
        serving: The server of the client listeners; None before `server` has made it.
    """

    def __init__(self, config: NodeConfig, system: System) -> None:
        self.config = config
        self.now_ms = system.now_ms
        self._disk = system.disk
        self._random = system.random
        self.controller = controller_of(config, system)
        self.log_levels = system.log_levels
        self.effective_settings = EffectiveSettings(config.static, self.image)
        self.logs = self._log_manager(self.controller.cluster_id)
        self.runtime_settings = RuntimeSettings(self.effective_settings, lambda: self.logs, system.connections_max)
        self.partitions = Partitions(self.image, trio.current_time, system.loop_rounds)
        slots = usable_slots(config.number("max.incremental.fetch.session.cache.slots"))
        self.fetch_sessions = SessionCache(slots, system.random)
        self.fetch_max_bytes = config.number("fetch.max.bytes")
        self.rack_aware = is_rack_aware(config.text("replica.selector.class"))
        self.producer_ids = ProducerIds(self.controller.allocate_producer_ids)
        self.groups = GroupCoordinator(
            InternalTopic(self.image, self.partitions, system.now_ms),
            GroupSettings.of(config.values),
            system.random,
            self.image,
            self._consumer_times,
        )
        self.leader_throttle = self._throttle(LEADER)
        seams = Seams(now_ms=system.now_ms, random=system.random, open_stream=system.open_stream)
        self.transaction_parts = self._transaction_parts(seams)
        self.transactions = self.transaction_parts.coordinator
        self.coordinators = self._lookup()
        self.partition_verifier = self.transaction_parts.verifier
        self.marker_log = self.transaction_parts.marker_log
        self.replication = ReplicaFetcherManager(config, self.image, self.broker_epoch, seams, self._throttle(FOLLOWER))
        lag_ms_max = config.number("replica.lag.time.max.ms")
        self.isr_changes = AlterPartitionManager(
            config.node_id, self.broker_epoch, self.partitions, self.controller.handle, lag_ms_max
        )
        self.directory_reports = DirectoryReports(
            config.node_id,
            self.controller,
            lambda: self.logs,
            metadata_directory=metadata_directory(config.static),
            timeout_ms=config.number("log.dir.failure.timeout.ms"),
        )
        self.replica_moves = self._replica_moves()
        self._follower: MetadataFollower | None = None
        self._large_messages = LargeMessages(self._disk.run)
        self.telemetry = self._telemetry()
        self.routes = self._routes()
        self.long_polls = LongPolls()
        self.times = None if config.metrics_listener is None else RequestTimes()
        self.serving: Server | None = None

    def _telemetry(self) -> TelemetryClients:
        size_bytes_max = self.config.number("telemetry.max.bytes")

        def subscriptions() -> dict[str, dict[str, str]]:
            return self.image.configs_of(ResourceType.CLIENT_METRICS)

        return TelemetryClients(subscriptions, self.now_ms, size_bytes_max, self._random, self._large_messages.run)

    def _routes(self) -> dict[int, Route[Services]]:
        """The routes of all APIs. The telemetry APIs are advertised only if a metrics listener shows their data."""
        advertised = TELEMETRY_KEYS if self.config.metrics_listener is not None else ()
        unstable = self.config.flag(UNSTABLE_VERSIONS)
        return routes_of(HANDLERS, unstable_versions=unstable, advertised=advertised)

    def _transaction_parts(self, seams: Seams) -> TransactionParts:
        return TransactionParts(
            self.config,
            self.image,
            self.partitions,
            self.groups,
            self.producer_ids,
            seams,
            self.effective_settings,
            self._disk.run,
        )

    def _lookup(self) -> CoordinatorLookup:
        partition_of = {OFFSETS_TOPIC: self.groups.partition_of, TRANSACTIONS_TOPIC: self.transactions.partition_of}
        return CoordinatorLookup(self.image, self.controller.handle, self.config, partition_of)

    # -- other services for handlers -----------------------------------------------------------------------------

    @property
    def image(self) -> Image:
        """The cluster's committed metadata."""
        return self.controller.image

    @property
    def controller_id(self) -> int:
        """The node that clients send changes to: this one, since every broker forwards them."""
        return self.config.node_id

    def log_directories(self) -> list[LogDirectory]:
        """The directories of `log.dirs`."""
        return [self._log_directory(one) for one in self.logs.directories]

    def _log_directory(self, directory: DataDirectory) -> LogDirectory:
        sizes = directory.sizes()
        if sizes is None:
            return LogDirectory(directory.path, failed=True)
        return LogDirectory(directory.path, *sizes, False, directory.cordoned, directory.logs, directory.futures)

    @property
    def kraft_versions(self) -> KraftVersions:
        """The finalized level of kraft.version, and the highest supported level."""
        return kraft_versions_of(self.controller)

    async def quorum(self) -> Quorum:
        """The state of the quorum of the metadata log. Raises RequestTimedOutError if the quorum has no leader."""
        return await quorum_of(self.config, self.controller)

    # -- how parts are connected ---------------------------------------------------------------------------------

    def broker_epoch(self) -> int:
        """The broker epoch of this node's registration; -1 before the registration."""
        return self.controller.broker_epoch

    def log_config(self, topic: str) -> LogConfig:
        """The effective settings of a topic's logs."""
        return LogConfig.from_settings(self.effective_settings.topic(topic))

    def name_cluster(self, cluster_id: str) -> None:
        """Make the logs again with the cluster id, which is unknown at first on the first start in a cluster."""
        self.logs = self._log_manager(cluster_id)

    def housekeeping(self) -> Housekeeping:
        """The tasks for retention, flushes and checkpoints of the logs."""
        return Housekeeping(self.config, self.logs, self.partitions)

    def log_cleaner(self) -> LogCleaner:
        """The task that compacts logs."""
        return LogCleaner(self.logs, self.partitions, self.effective_settings.node_value, self.now_ms)

    def metadata_follower(self) -> MetadataFollower:
        """Make the part that creates, removes and changes partitions, and loads coordinators, as the metadata says."""
        lag_ms_max = self.config.number("replica.lag.time.max.ms")
        logs = ReplicaLogs(
            self.config.node_id,
            self.image,
            self.logs,
            self.log_config,
            placed=self.directory_reports.assign,
            target_of=self.replica_moves.target_of,
            environment=ReplicaEnvironment(steady_ms, lambda: self.image.brokers, lag_ms_max),
        )
        events = ReplicaEvents(
            self._became_leader, self._lost_leadership, self.groups.partitions_deleted, self.isr_changes.request_change
        )
        self._follower = MetadataFollower(
            self.config.node_id,
            self.image,
            logs,
            self.partitions,
            events,
            fetchers=self.replication,
            moves=self.replica_moves,
        )
        return self._follower

    def _directory_failed(self, path: str, error: Exception) -> None:
        if self._follower is not None:
            self._follower.directory_failed()
        self.directory_reports.directories_changed()

    def update_cordoned(self) -> None:
        """Cordon the data directories that the settings name, if the metadata version supports cordons (KIP-1066)."""
        named = self.effective_settings.node_value(CORDONED)
        listed = named if isinstance(named, tuple) and cordons_directories(self.image.features) else ()
        for directory in self.logs.directories:
            directory.cordoned = CORDONED_ALL in listed or directory.path in listed
        self.directory_reports.directories_changed()

    def apply_settings(self, records: Iterable[Record]) -> None:
        """Apply the settings and features in records of committed metadata: limits and cordoned directories."""
        records = list(records)
        self.runtime_settings.apply(records)
        if any(isinstance(record, ConfigRecord | FeatureRecord) for record in records):
            self.update_cordoned()

    def _became_leader(self, partition: Partition) -> None:
        topic, index = partition.topic_partition
        if topic == OFFSETS_TOPIC:
            self.groups.elected(index, partition.leader_epoch)
        elif topic == TRANSACTIONS_TOPIC:
            self.transactions.runtime.elected(index, partition.leader_epoch)

    def _lost_leadership(self, partition: Partition) -> None:
        topic, index = partition.topic_partition
        if topic == OFFSETS_TOPIC:
            self.groups.resigned(index)
        elif topic == TRANSACTIONS_TOPIC:
            self.transactions.runtime.resigned(index)

    def server(self) -> Server:
        """The server of the client listeners, with the steps of a request that this node is configured for."""
        number = self.config.number
        services: Services = self
        request_log = RequestLog(self.log_levels, ROOT)
        dispatcher = Dispatcher(
            services,
            self.routes,
            clock=trio.current_time,
            observer=request_log,
            large_messages=self._large_messages,
            long_polls=self.long_polls,
            shortcuts={usual_produce.KEY: usual_produce.UsualProduce(services).answer},
        )
        self.serving = Server(
            dispatcher,
            size_bytes_max=number("socket.request.max.bytes"),
            connections_max=lambda: self.runtime_settings.connections_max,
            connections_max_of=self.runtime_settings.connections_max_of,
            memory=RequestMemory(number("queued.max.request.bytes")),
            times=self.times,
        )
        return self.serving

    def _consumer_times(self, group_id: str) -> ConsumerGroupTimes:
        if self.image.config(ResourceType.GROUP, group_id):
            return ConsumerGroupTimes.of_group(self.effective_settings.group(group_id))
        return ConsumerGroupTimes.of_node(self.effective_settings.node())

    def _throttle(self, side: str) -> Throttle:
        number = self.config.number
        samples, sample_s = number("replication.quota.window.num"), number("replication.quota.window.size.seconds")
        return throttle_of(side, self.config.node_id, self.image, samples, sample_s * 1000)

    def _replica_moves(self) -> ReplicaMoves:
        node_id, number, name = self.config.node_id, self.config.number, "alter.log.dirs.replication.quota.window"
        throttle = move_throttle(node_id, self.image, number(f"{name}.num"), number(f"{name}.size.seconds") * 1000)
        placed = self.directory_reports.assign
        return ReplicaMoves(node_id, self.image, lambda: self.logs, self.partitions, throttle, placed)

    def _log_manager(self, cluster_id: str | None) -> LogManager:
        return LogManager(
            LogContext(
                self._disk,
                self.now_ms,
                self._random,
                producer_expiration_ms=self.config.number("producer.id.expiration.ms"),
            ),
            list(self.config.log_dirs),
            config_of=self.log_config,
            node_id=self.config.node_id,
            cluster_id=cluster_id,
            on_offline=self._directory_failed,
        )
