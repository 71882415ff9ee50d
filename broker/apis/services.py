"""The parts of a node that handlers use, as small Protocols.

A handler's module names the Protocols that it needs, as `RequestContext[GroupService]`, or in a Protocol of its own if
it needs several. `Services` is all of them together, which a node must offer. Tests offer only the Protocols that the
handler under test names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from minikafka.broker.apis.quorum_state import KraftVersions, Quorum
from minikafka.broker.connections.routes import Route
from minikafka.broker.coordinator.groups.group_coordinator import GroupCoordinator
from minikafka.broker.coordinator.transactions.marker_log import MarkerLog
from minikafka.broker.coordinator.transactions.partition_verifier import PartitionVerifier
from minikafka.broker.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from minikafka.broker.partitions.fetch_sessions import SessionCache
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.replication.replication_throttle import Throttle
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.broker.telemetry.clients import TelemetryClients
from minikafka.controller.metadata.image import Image
from minikafka.controller.settings.effective_settings import EffectiveSettings
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.names import TopicPartition
from minikafka.storage.logs.log import Log


class Clock(Protocol):
    """The wall clock."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        ...


class ClusterView(Protocol):
    """The cluster's committed metadata."""

    @property
    def image(self) -> Image:
        """The image of brokers, topics and settings, which changes as the metadata log is applied."""
        ...


class ControllerId(Protocol):
    """The controller as clients see it."""

    @property
    def controller_id(self) -> int:
        """The id of the node to which clients send changes; that node forwards them to the active controller."""
        ...


class Controller(Protocol):
    """Carries out requests that change the cluster."""

    async def handle(self, request: Any, version: int) -> Any:
        """Return the active controller's response. Raises KafkaError."""
        ...


class ControllerService(Protocol):
    """Access to the active controller."""

    @property
    def controller(self) -> Controller:
        """The controller; it forwards requests if the active controller is another node."""
        ...


class PartitionStore(Protocol):
    """The partitions with a replica on this node."""

    @property
    def partitions(self) -> Partitions:
        """The replicas of this node, by topic and partition number."""
        ...


class FetchService(Protocol):
    """State and limits of fetches."""

    @property
    def fetch_sessions(self) -> SessionCache:
        """The incremental fetch sessions of this node (KIP-227)."""
        ...

    @property
    def fetch_max_bytes(self) -> int:
        """The setting `fetch.max.bytes`."""
        ...

    @property
    def rack_aware(self) -> bool:
        """Whether consumers are sent to replicas of their rack (`replica.selector.class`)."""
        ...

    @property
    def leader_throttle(self) -> Throttle:
        """The throttle of replication from this node (`leader.replication.throttled.rate`)."""
        ...


class GroupService(Protocol):
    """Access to the group coordinator of this node."""

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups."""
        ...


class TransactionService(Protocol):
    """Access to the transaction coordinator and the transaction markers of this node."""

    @property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactional ids."""
        ...

    @property
    def partition_verifier(self) -> PartitionVerifier:
        """The verifier that asks the coordinators of transactions before records are appended."""
        ...

    @property
    def marker_log(self) -> MarkerLog:
        """The log that writes transaction markers to the partitions of this node."""
        ...


class Coordinators(Protocol):
    """Finds coordinators."""

    async def coordinator_of(self, key_type: int, key: str) -> int:
        """The id of the node that coordinates a group or a transactional id. Raises CoordinatorNotAvailableError."""
        ...


class CoordinatorService(Protocol):
    """Access to the lookup of coordinators."""

    @property
    def coordinators(self) -> Coordinators:
        """The coordinators of all groups and transactional ids of the cluster."""
        ...


class ProducerIdSource(Protocol):
    """Hands out producer ids."""

    async def next(self) -> int:
        """Return an id that was never handed out before. Raises KafkaError."""
        ...


class ProducerIdService(Protocol):
    """Producer ids for idempotent producers."""

    @property
    def producer_ids(self) -> ProducerIdSource:
        """The source of producer ids, which are unique in the cluster."""
        ...


class PeerConnections(Protocol):
    """The state of the connections to other brokers."""

    def recently_lost(self, node_id: int) -> bool:
        """Whether the connection to a broker has just broken and could not be restored."""
        ...


class ReplicationService(Protocol):
    """The fetchers that follow other brokers."""

    @property
    def replication(self) -> PeerConnections:
        """The connections to the leaders that this node follows, one for each leader."""
        ...


class SettingsService(Protocol):
    """The node's own settings."""

    @property
    def config(self) -> NodeConfig:
        """The settings with which the node was started."""
        ...


class ConfigsService(Protocol):
    """The settings that DescribeConfigs shows."""

    @property
    def effective_settings(self) -> EffectiveSettings:
        """The settings of topics, brokers and groups that are in effect."""
        ...

    @property
    def log_levels(self) -> dict[str, str]:
        """The level of each logger, by the logger's name."""
        ...


class RoutesService(Protocol):
    """The APIs of this node."""

    @property
    def routes(self) -> Mapping[int, Route[Any]]:
        """The routing table of the listener, by API key."""
        ...


@dataclass(slots=True, frozen=True)
class LogDirectory:
    """A directory of `log.dirs` with its logs.

    Attributes:
        total_bytes, usable_bytes: The size and the free space of the file system; -1 if the directory has failed.
        cordoned: Whether no new logs are created in the directory.
        futures: Copies of logs that are in other directories.
    """

    path: str
    total_bytes: int = -1
    usable_bytes: int = -1
    failed: bool = False
    cordoned: bool = False
    logs: Mapping[TopicPartition, Log] = field(default_factory=dict[TopicPartition, Log])
    futures: Mapping[TopicPartition, Log] = field(default_factory=dict[TopicPartition, Log])


class ReplicaMover(Protocol):
    """Moves replicas between data directories."""

    def request(self, key: TopicPartition, path: str) -> ErrorCode:
        """Move a replica to the data directory `path`, now or when the replica is created."""
        ...


class ReplicaMoveService(Protocol):
    """Access to the moves of replicas between data directories."""

    @property
    def replica_moves(self) -> ReplicaMover:
        """The moves of this node's replicas."""
        ...


class LogDirectoryService(Protocol):
    """The data directories."""

    def log_directories(self) -> list[LogDirectory]:
        """Return all data directories, including failed ones."""
        ...


class TelemetryService(Protocol):
    """Access to the metrics that clients push."""

    @property
    def telemetry(self) -> TelemetryClients:
        """The clients that push metrics."""
        ...


class KraftVersionService(Protocol):
    """The level of the feature `kraft.version`, for handlers that show or check the level."""

    @property
    def kraft_versions(self) -> KraftVersions:
        """The current level, and the highest level that this node supports."""
        ...


class QuorumService(Protocol):
    """The quorum of the metadata log."""

    async def quorum(self) -> Quorum:
        """Describe the quorum as its leader sees it. Raises RequestTimedOutError if there is no leader."""
        ...


class Services(
    Clock,
    ClusterView,
    ControllerId,
    ControllerService,
    PartitionStore,
    FetchService,
    GroupService,
    TransactionService,
    CoordinatorService,
    ProducerIdService,
    ReplicationService,
    SettingsService,
    ConfigsService,
    RoutesService,
    LogDirectoryService,
    ReplicaMoveService,
    QuorumService,
    KraftVersionService,
    TelemetryService,
    Protocol,
):
    """Everything that the handlers of a node use."""
