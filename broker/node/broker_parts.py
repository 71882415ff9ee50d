"""`BrokerParts`: creates and connects the parts of a node that serves clients; `node.py` starts and stops them."""

from functools import partial

import trio

from minikafka.broker.apis import usual_produce
from minikafka.broker.apis.handler_table import HANDLERS
from minikafka.broker.apis.services import Fetching, NodeSetup, Services
from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.large_messages import LargeMessages
from minikafka.broker.connections.long_polls import LongPolls
from minikafka.broker.connections.request_log import RequestLog
from minikafka.broker.connections.request_memory import RequestMemory
from minikafka.broker.connections.request_times import RequestTimes
from minikafka.broker.connections.routes import routes_of
from minikafka.broker.connections.server import ConnectionLimits, Server
from minikafka.broker.coordinator.coordinator_parts import CoordinatorParts
from minikafka.broker.node.controller_factory import controller_of
from minikafka.broker.node.controller_security import credentials_of
from minikafka.broker.node.directory_reports import DirectoryReports
from minikafka.broker.node.logging_setup import ROOT
from minikafka.broker.node.runtime_settings import RuntimeSettings
from minikafka.broker.node.system import System
from minikafka.broker.partitions.fetch_sessions import SessionCache, usable_slots
from minikafka.broker.partitions.log_cleaner import LogCleaner
from minikafka.broker.partitions.log_housekeeping import Housekeeping
from minikafka.broker.partitions.partition_lifecycle import ReplicaEvents
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.partitions.preferred_read_replica import is_rack_aware
from minikafka.broker.quotas.client_quotas import ClientQuotas, quota_samples
from minikafka.broker.quotas.connection_rates import ConnectionRates
from minikafka.broker.replication.replica_parts import ReplicaParts
from minikafka.broker.security.between_nodes import security_between_brokers
from minikafka.broker.security.guards import guards_of
from minikafka.broker.security.node_tls import NodeTls
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.broker.telemetry.clients import TelemetryClients
from minikafka.client.connections.seams import Seams
from minikafka.controller.metadata.image import Image
from minikafka.controller.settings.effective_settings import EffectiveSettings, ResourceType
from minikafka.protocol.apis import TELEMETRY_KEYS
from minikafka.protocol.settings.registry import UNSTABLE_VERSIONS
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log_context import LogContext


class BrokerParts:
    """The parts of a broker. For the arguments see `Node`.

    Args:
        tls: The TLS of the listeners and of connections to other nodes.

    Attributes:
        config: The settings with which the node was started.
        controller: Holds the cluster's metadata and changes the metadata, here or through the quorum.
        partitions: The replicas on this node.
        logs: The logs on disk. On the first start in a cluster the cluster id is unknown until `LogManager.join`.
        runtime_settings: Applies settings that change while the node runs.
        directory_reports: Tells the controller of failed data directories, and where the replicas of this node are.
        coordinators: The coordinators of groups and transactions.
        replicas: What creates, copies and moves the replicas of this node.
        services: What the handlers of requests use.
        long_polls: The Fetch requests of consumers that wait for records.
        times: The durations of the requests of clients; None without `metrics.listener`.
        server: The server of the client listeners.
    """

    def __init__(self, config: NodeConfig, system: System, tls: NodeTls) -> None:
        self.config = config
        self.controller = controller_of(config, system, tls)
        effective = EffectiveSettings(config.static, self.image)
        self.partitions = Partitions(self.image, system.steady or trio.current_time, system.loop_rounds)
        self.logs = self._log_manager(system, effective)
        self.directory_reports = DirectoryReports(config, self.controller, self.logs)
        cordoned = self.directory_reports.directories_changed
        protected = protected_listener(config)
        samples, clock = quota_samples(config.static), trio.current_time
        self.runtime_settings = RuntimeSettings(
            effective,
            self.logs,
            system.connections_max,
            cordoned,
            ClientQuotas(samples, clock),
            ConnectionRates(samples, clock, protected),
            protected,
        )
        seams = Seams(
            now_ms=system.now_ms,
            random=system.random,
            open_stream=system.open_stream,
            security=security_between_brokers(config, tls),
        )
        common = config, self.controller, self.partitions
        self.coordinators = CoordinatorParts(*common, seams, effective, system.disk.run)
        groups = self.coordinators.groups
        events = ReplicaEvents(self.coordinators.elected, self.coordinators.resigned, groups.partitions_deleted)
        self.replicas = ReplicaParts(*common, self.logs, seams, events, self.directory_reports.assign)
        large_messages = LargeMessages(system.disk.run)
        self.services = self._services(system, effective, tls, large_messages)
        self.long_polls = LongPolls()
        self.times = None if config.metrics_listener is None else RequestTimes()
        self.server = self._server(system, large_messages)

    @property
    def image(self) -> Image:
        """The cluster's committed metadata."""
        return self.controller.image

    def housekeeping(self) -> Housekeeping:
        """The tasks for retention, flushes and checkpoints of the logs."""
        return Housekeeping(self.config, self.logs, self.partitions)

    def log_cleaner(self) -> LogCleaner:
        """The task that compacts logs."""
        return LogCleaner(self.logs, self.partitions, self.services.setup.effective.node_value, self.services.now_ms)

    # -- how parts are made --------------------------------------------------------------------------------------

    def _log_manager(self, system: System, effective: EffectiveSettings) -> LogManager:
        expiration_ms = self.config.number("producer.id.expiration.ms")
        return LogManager(
            LogContext(system.disk, system.now_ms, system.random, producer_expiration_ms=expiration_ms),
            list(self.config.log_dirs),
            config_of=lambda topic: LogConfig.from_settings(effective.topic(topic)),
            node_id=self.config.node_id,
            cluster_id=self.controller.cluster_id,
            on_offline=self._directory_failed,
        )

    def _directory_failed(self, path: str, error: Exception) -> None:
        self.replicas.follower.directory_failed()
        self.directory_reports.directories_changed()

    def _services(
        self, system: System, effective: EffectiveSettings, tls: NodeTls, large_messages: LargeMessages
    ) -> Services:
        config, coordinators = self.config, self.coordinators
        # The telemetry APIs are advertised only if a metrics listener shows their data.
        advertised = TELEMETRY_KEYS if config.metrics_listener is not None else ()
        routes = routes_of(HANDLERS, unstable_versions=config.flag(UNSTABLE_VERSIONS), advertised=advertised)
        if system.interposer is not None:
            routes = system.interposer.routes(routes)
        slots = usable_slots(config.number("max.incremental.fetch.session.cache.slots"))
        return Services(
            system.now_ms,
            self.image,
            self.controller,
            NodeSetup(config, effective, system.log_levels, routes, partial(system.disk.run, tls.why_refused)),
            self.partitions,
            Fetching(
                SessionCache(slots, system.random),
                config.number("fetch.max.bytes"),
                is_rack_aware(config.text("replica.selector.class")),
                self.replicas.leader_throttle,
            ),
            self.replicas,
            coordinators.groups,
            coordinators.transactions,
            coordinators.lookup,
            TelemetryClients(
                lambda: self.image.configs_of(ResourceType.CLIENT_METRICS),
                system.now_ms,
                config.number("telemetry.max.bytes"),
                system.random,
                large_messages.run,
            ),
        )

    def _server(self, system: System, large_messages: LargeMessages) -> Server:
        """The server of the client listeners, with the steps of a request that this node is configured for."""
        number, setup = self.config.number, self.services.setup
        usual = usual_produce.UsualProduce(self.services, self.controller.authorizer)
        dispatcher = Dispatcher(
            self.services,
            setup.routes,
            clock=trio.current_time,
            authorizer=self.controller.authorizer,
            quotas=self.runtime_settings.quotas,
            observer=system.interposer or RequestLog(setup.log_levels, ROOT),
            large_messages=large_messages,
            long_polls=self.long_polls,
            shortcuts={usual_produce.KEY: usual.answer},
        )
        credentials = credentials_of(self.config, system, self.image)
        return Server(
            dispatcher,
            size_bytes_max=number("socket.request.max.bytes"),
            limits=ConnectionLimits(
                self.runtime_settings.connections_max_for,
                self.runtime_settings.connections_max_on,
                self.runtime_settings.connections_max_of,
                self.runtime_settings.connection_rates,
            ),
            memory=RequestMemory(number("queued.max.request.bytes")),
            times=self.times,
            guards=guards_of(
                self.config, self.config.client_listeners, dispatcher, setup.routes, credentials, system.now_ms
            ),
        )


def protected_listener(config: NodeConfig) -> str:
    """The listener of the brokers, if clients have another; "" otherwise."""
    return config.listeners.inter_broker if len(config.client_listeners) > 1 else ""
