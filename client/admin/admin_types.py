"""The arguments and results of `Admin`'s methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from minikafka.client.argument_kinds import Int16, Int32
from minikafka.client.connections.cluster_metadata import Broker
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition

TOPIC = 2
BROKER = 4


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 means the cluster's default; `assignments` maps partitions to the ids of their replicas."""

    name: str
    partitions: Int32 = -1
    replication_factor: Int16 = -1
    assignments: Mapping[Int32, Sequence[Int32]] | None = None
    configs: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A value of a config at one level (topic, broker, default …). `source` has the values of `ConfigEntry.source`."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A config; `source` as in Kafka's protocol: 1 topic, 2-4 broker, 5 default, 8 group.

    Attributes:
        synonyms: all values set for the config, the effective value first; empty unless requested.
    """

    name: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        return self.source == 5


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The result of `describe_cluster`.

    Attributes:
        brokers: the live brokers, and the fenced brokers if they were requested.
        fenced: the ids of the fenced brokers in `brokers`.
    """

    cluster_id: str
    controller_id: int
    brokers: list[Broker]
    fenced: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ApiVersionRange:
    """An API that a broker offers: its key, Kafka's name for it, and its first and last version."""

    key: int
    name: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature: the levels that a broker supports (None: it does not know the feature), and the finalized level.

    The `level` of a feature that the cluster has not finalized is 0.
    """

    name: str
    supported_min: int | None
    supported_max: int | None
    level: int


@dataclass(frozen=True, slots=True)
class FeaturesDescription:
    """The result of `describe_features`; `epoch` increases with every change, -1 if it is not known."""

    epoch: int
    features: list[Feature]


@dataclass(frozen=True, slots=True)
class ClientQuota:
    """The quotas of an entity: `entity` maps types ("user", "client-id", "ip") to names, or to None for the default."""

    entity: Mapping[str, str | None]
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """A replica's size on disk, and its lag behind the high watermark."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A broker's log directory."""

    path: str
    error: KafkaError | None
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaSize]


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment in progress: all current replicas, those being added, those being removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or observer of the metadata quorum. Times in ms since 1970, -1 if unknown to the leader.

    Attributes:
        addresses: `host:port` of each of its controller listeners; empty for an observer.
        directory_id: id of the metadata directory, 22 characters; None if the leader does not know it, as for voters
            that are fixed by settings (KIP-853).
    """

    node_id: int
    log_end_offset: int
    last_fetch_time_ms: int = -1
    last_caught_up_time_ms: int = -1
    addresses: tuple[str, ...] = ()
    directory_id: str | None = None


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The result of `describe_quorum`: leader, leader epoch and high watermark of the metadata log."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """An entry of `list_groups`."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A group's member and its assignment.

    Attributes:
        epoch: the member's epoch under the consumer protocol, -1 under the classic one.
        target: the member's target assignment under the consumer protocol, reached once others have revoked it.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    assignment: list[TopicPartition]
    epoch: int = -1
    target: list[TopicPartition] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """The result of `describe_group`.

    Attributes:
        group_type: the group's protocol: classic or consumer.
        epoch: the group's epoch under the consumer protocol, -1 under the classic one.
    """

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: list[GroupMember] = field(default_factory=list)
    group_type: str = "classic"
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id; `state` as in Kafka: Empty, Ongoing, PrepareCommit, CompleteAbort …"""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The last transaction of a transactional id; `start_ms` is -1 before the first one."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    coordinator: int
    timeout_ms: int
    start_ms: int
    partitions: list[TopicPartition]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer's state at a partition's leader; `transaction_start_offset` is None if no transaction is open."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """An open transaction of a partition that no coordinator knows."""

    partition: TopicPartition
    producer: ProducerState
