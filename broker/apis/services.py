"""The parts of a node that handlers use.

A handler's module names the parts that it needs by small Protocols, as `RequestContext[GroupService]`, or in a Protocol
of its own if it needs several. `Services` has all of them. Tests offer only the parts that the handler under test
names.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from minikafka.broker.connections.routes import Route
from minikafka.broker.coordinator.groups.group_coordinator import GroupCoordinator
from minikafka.broker.coordinator.refused_topics import RefusedTopics
from minikafka.broker.coordinator.transactions.transaction_parts import TransactionParts
from minikafka.broker.partitions.fetch_sessions import SessionCache
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.replication.replica_parts import ReplicaParts
from minikafka.broker.replication.replication_throttle import Throttle
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.broker.telemetry.clients import TelemetryClients
from minikafka.controller.metadata.image import Image
from minikafka.controller.quorum_controller import QuorumController
from minikafka.controller.settings.effective_settings import EffectiveSettings


async def _accepts(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class NodeSetup:
    """The settings of a node, and the APIs that it serves.

    Attributes:
        config: The settings with which the node was started.
        effective: The settings of topics, brokers and groups that are in effect.
        log_levels: The level of each logger, by the logger's name.
        routes: The routing table of the listener, by API key.
        why_refused: Returns why the texts of the settings of the node may not change from the first to the second
            argument, since a store of keys or certificates does not work; "" if they may.
    """

    config: NodeConfig
    effective: EffectiveSettings
    log_levels: Mapping[str, str]
    routes: Mapping[int, Route[Any]]
    why_refused: Callable[[Mapping[str, str], Mapping[str, str]], Awaitable[str]] = _accepts


@dataclass(frozen=True, slots=True)
class Fetching:
    """The state and the limits that all fetches from a node share.

    Attributes:
        sessions: The incremental fetch sessions (KIP-227).
        max_bytes: The setting `fetch.max.bytes`.
        rack_aware: Whether consumers are sent to replicas of their rack (`replica.selector.class`).
        leader_throttle: The throttle of replication from this node (`leader.replication.throttled.rate`).
    """

    sessions: SessionCache
    max_bytes: int
    rack_aware: bool
    leader_throttle: Throttle


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


class ControllerService(Protocol):
    """Access to the controllers of the cluster."""

    @property
    def controller(self) -> QuorumController:
        """This node's controller; it forwards requests if the active controller is another node."""
        ...


class CreationService(Protocol):
    """The topics that the controller did not create on demand."""

    @property
    def refused_topics(self) -> RefusedTopics: ...


class SetupService(Protocol):
    """Access to the settings of the node."""

    @property
    def setup(self) -> NodeSetup:
        """The settings of the node, and its APIs."""
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
    def fetching(self) -> Fetching:
        """What all fetches from this node share."""
        ...


class ReplicaService(Protocol):
    """Access to what creates, copies and moves the replicas of this node."""

    @property
    def replicas(self) -> ReplicaParts:
        """The data directories, the fetchers from other brokers, and the moves between directories."""
        ...


class GroupService(Protocol):
    """Access to the group coordinator of this node."""

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups."""
        ...


class TransactionService(Protocol):
    """Access to what serves transactions and idempotent producers."""

    @property
    def transactions(self) -> TransactionParts:
        """The transaction coordinator, the questions to coordinators, the markers, and the producer ids."""
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


class TelemetryService(Protocol):
    """Access to the metrics that clients push."""

    @property
    def telemetry(self) -> TelemetryClients:
        """The clients that push metrics."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that the handlers of a broker use; each attribute is described by the Protocol that has it."""

    now_ms: Callable[[], int]
    image: Image
    controller: QuorumController
    setup: NodeSetup
    partitions: Partitions
    fetching: Fetching
    replicas: ReplicaParts
    groups: GroupCoordinator
    transactions: TransactionParts
    coordinators: Coordinators
    telemetry: TelemetryClients
    refused_topics: RefusedTopics = field(default_factory=RefusedTopics)
