"""What an Admin is given and what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from minikafka.client.connections.cluster_metadata import Broker
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition

TOPIC = 2
BROKER = 4


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 stands for the cluster's default, `assignments` for replicas by partition."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting in force; `source` as in Kafka's protocol: 1 topic, 2-4 broker, 5 default, 8 group."""

    name: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False

    @property
    def is_default(self) -> bool:
        return self.source == 5


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster."""

    cluster_id: str
    controller_id: int
    brokers: list[Broker]


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """What a replica takes on disk, and how far it is behind."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """One of a broker's data directories."""

    path: str
    error: KafkaError | None
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaSize]


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition on its way to other brokers: all replicas of the moment, those that are new, those that will go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A copy of the metadata log. Times in ms since 1970, -1 where the leader does not know.

    Attributes:
        addresses: `host:port` of each of its controller listeners; none of an observer.
    """

    node_id: int
    log_end_offset: int
    last_fetch_time_ms: int = -1
    last_caught_up_time_ms: int = -1
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """Who leads the metadata log, in which epoch, and how far it is committed."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in the list of all."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member and what it reads."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    assignment: list[TopicPartition]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: list[GroupMember] = field(default_factory=list)
