"""The parts of a node that handlers use, as small Protocols.

A handler's module names those that it needs, as `RequestContext[GroupService]` or, for several, in a Protocol of its
own; `Services` is all of them, which a node must offer. Tests offer only what the handler under test names.
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
from minikafka.storage.log import Log


class Clock(Protocol):
    """The wall clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...


class ClusterView(Protocol):
    """The cluster's committed metadata."""

    @property
    def image(self) -> Image:
        """Brokers, topics and settings; changes as the metadata log is applied."""
        ...


class ControllerId(Protocol):
    """The controller as clients see it."""

    @property
    def controller_id(self) -> int:
        """The node that clients send changes to; it forwards them to the active controller."""
        ...


class Controller(Protocol):
    """Carries out requests that change the cluster."""

    async def handle(self, request: Any, version: int) -> Any:
        """The active controller's response. Raises KafkaError."""
        ...


class ControllerService(Protocol):
    """Access to the active controller."""

    @property
    def controller(self) -> Controller:
        """Forwards requests where the active controller is another node."""
        ...


class PartitionStore(Protocol):
    """The partitions with a replica on this node."""

    @property
    def partitions(self) -> Partitions:
        """By topic and number."""
        ...


class FetchService(Protocol):
    """State and limits of fetches."""

    @property
    def fetch_sessions(self) -> SessionCache:
        """Incremental fetch sessions (KIP-227)."""
        ...

    @property
    def fetch_max_bytes(self) -> int:
        """`fetch.max.bytes`."""
        ...

    @property
    def rack_aware(self) -> bool:
        """Whether consumers are sent to replicas of their rack (`replica.selector.class`)."""
        ...

    @property
    def leader_throttle(self) -> Throttle:
        """`leader.replication.throttled.rate`."""
        ...


class GroupService(Protocol):
    """Consumer groups."""

    @property
    def groups(self) -> GroupCoordinator:
        """The groups that this node coordinates."""
        ...


class TransactionService(Protocol):
    """Transactions."""

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transactional ids that this node coordinates."""
        ...

    @property
    def partition_verifier(self) -> PartitionVerifier:
        """Asks the coordinators of transactions before records are appended."""
        ...

    @property
    def marker_log(self) -> MarkerLog:
        """Writes transaction markers to the partitions of this node."""
        ...


class Coordinators(Protocol):
    """Finds coordinators."""

    async def coordinator_of(self, key_type: int, key: str) -> int:
        """The id of the node that coordinates a group or a transactional id. Raises CoordinatorNotAvailableError."""
        ...


class CoordinatorService(Protocol):
    """Where groups and transactions are coordinated."""

    @property
    def coordinators(self) -> Coordinators:
        """For every group and transactional id of the cluster."""
        ...


class ProducerIdSource(Protocol):
    """Hands out producer ids."""

    async def next(self) -> int:
        """An id that was never handed out before. Raises KafkaError."""
        ...


class ProducerIdService(Protocol):
    """Producer ids for idempotent producers."""

    @property
    def producer_ids(self) -> ProducerIdSource:
        """Ids of the whole cluster."""
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
        """One connection for each leader that this node follows."""
        ...


class SettingsService(Protocol):
    """The node's own settings."""

    @property
    def config(self) -> NodeConfig:
        """As started."""
        ...


class ConfigsService(Protocol):
    """The settings that DescribeConfigs shows."""

    @property
    def effective_settings(self) -> EffectiveSettings:
        """Of topics, brokers and groups."""
        ...

    @property
    def log_levels(self) -> dict[str, str]:
        """Level by logger."""
        ...


class RoutesService(Protocol):
    """The APIs of this node."""

    @property
    def routes(self) -> Mapping[int, Route[Any]]:
        """By API key."""
        ...


@dataclass(slots=True, frozen=True)
class LogDirectory:
    """A directory of `log.dirs`, with the logs in it, and its file system's size and free space in bytes, -1 if it has
    failed.

    Attributes:
        cordoned: No new logs are made in it.
        futures: Copies of logs in other directories.
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
        """Move a replica, now or when it is made."""
        ...


class ReplicaMoveService(Protocol):
    """The moves of this node."""

    @property
    def replica_moves(self) -> ReplicaMover:
        """Those that go on, and new ones."""
        ...


class LogDirectoryService(Protocol):
    """The data directories."""

    def log_directories(self) -> list[LogDirectory]:
        """All, also those that have failed."""
        ...


class TelemetryService(Protocol):
    """The metrics of clients."""

    @property
    def telemetry(self) -> TelemetryClients:
        """The clients that push them."""
        ...


class KraftVersionService(Protocol):
    """A handler that shows or checks the level of kraft.version uses this."""

    @property
    def kraft_versions(self) -> KraftVersions:
        """The level, and the highest one."""
        ...


class QuorumService(Protocol):
    """The quorum of the metadata log."""

    async def quorum(self) -> Quorum:
        """As its leader sees it. Raises RequestTimedOutError where there is no leader."""
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
