"""The metadata image: brokers, topics, settings, quotas, credentials, … after all records; `apply` changes it.

The same records in the same order give the same image: live, after a restart, from a snapshot, and on a follower.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from minikafka.controller.metadata.acl import Acl
from minikafka.controller.metadata.features import unsupported_level
from minikafka.controller.metadata.records import (
    AclRecord,
    BrokerChange,
    BrokerRecord,
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureRecord,
    PartitionChange,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RemoveAcl,
    RemoveBroker,
    RemoveDelegationToken,
    RemoveScram,
    RemoveTopic,
    ScramRecord,
    TopicRecord,
    UnreadableRecord,
)
from minikafka.storage.directories.directory_ids import MIGRATING, UNASSIGNED, is_online

__all__ = [
    "Entity", "Image", "PartitionState", "Topic", "changed", "copy_image", "created", "moved_directories",
    "unify_collision_characters",
]  # fmt: skip

Entity = tuple[tuple[str, str | None], ...]
"""The entity of a quota: sorted pairs of type and name."""

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The leader and replicas of a partition.

    Attributes:
        leader: the node id of the leader; -1 for none.
        replicas: the node ids of the replicas; the first is the preferred leader.
        isr: the replicas in sync, in no particular order.
        elr: eligible leader replicas (KIP-966): not in sync, but with every committed record. They left the ISR when it
            fell below min.insync.replicas, after which nothing could be committed. Disjoint from `isr`.
        last_known_elr: the last leader of a partition without leader and in-sync replicas; the last resort if all
            eligible replicas lost records in a crash.
        directories: the directory id of each of `replicas` (`directory_ids.py`); empty if none was ever recorded.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()

    def directory(self, node_id: int) -> bytes:
        """The id of the directory that the replica on a node is in; `MIGRATING` if it was never recorded."""
        if not self.directories or node_id not in self.replicas:
            return MIGRATING
        return self.directories[self.replicas.index(node_id)]


@dataclass(slots=True)
class Topic:
    """A topic. A new field is also written by `snapshot_encoding._topics`.

    Attributes:
        partitions: indexed by partition number.
    """

    name: str
    id: bytes
    partitions: list[PartitionState] = field(default_factory=list)


@dataclass(slots=True)
class Image:
    """The cluster's metadata.

    Attributes:
        cluster_id: the cluster id; "" until the first record.
        topics: the topics by name, in order of creation.
        topics_by_id: the same topics by topic id, 16 bytes.
        brokers: the last registration of each node, by node id.
        served_epochs: for each broker that registered again and was not unfenced since, the epoch in which it was last
            unfenced, or the first known epoch. Snapshots do not contain it.
        last_broker_epoch: the greatest epoch of all brokers so far; -1 before the first registration.
        configs: the dynamic settings by (resource type, resource name).
        features: the finalized levels by name of the feature.
        next_producer_id: the first producer id that is not allocated.
        quotas: the value of each quota key, by entity.
        scram: the credentials by (user, mechanism).
        acls: the rules of access, in the order of their creation; the values mean nothing.
        tokens: the delegation tokens by id, in the order of their creation.
        colliding: the topic names with `.` or `_`, by the name with every `.` replaced by `_`.
    """

    cluster_id: str = ""
    topics: dict[str, Topic] = field(default_factory=dict)
    topics_by_id: dict[bytes, Topic] = field(default_factory=dict)
    brokers: dict[int, BrokerRecord] = field(default_factory=dict)
    served_epochs: dict[int, int] = field(default_factory=dict, compare=False)
    last_broker_epoch: int = -1
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    scram: dict[tuple[str, int], ScramRecord] = field(default_factory=dict)
    acls: dict[Acl, None] = field(default_factory=dict)
    tokens: dict[str, DelegationTokenRecord] = field(default_factory=dict)
    colliding: dict[str, list[str]] = field(default_factory=dict)

    def is_alive(self, node_id: int) -> bool:
        """Whether a broker is registered and not fenced."""
        broker = self.brokers.get(node_id)
        return broker is not None and not broker.fenced

    def may_lead(self, node_id: int) -> bool:
        """Whether a broker is registered, not fenced and not shutting down."""
        broker = self.brokers.get(node_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def live_brokers(self) -> list[int]:
        """The ids of all brokers that are not fenced, in order."""
        return sorted(node_id for node_id in self.brokers if self.is_alive(node_id))

    def has_online(self, node_id: int, directory: bytes) -> bool:
        """Whether a broker is registered and can use this data directory."""
        broker = self.brokers.get(node_id)
        return broker is not None and is_online(directory, broker.log_dirs)

    def new_directory(self, node_id: int) -> bytes:
        """The directory of a new replica: the only directory of its broker, or `UNASSIGNED` if the broker chooses."""
        broker = self.brokers.get(node_id)
        return broker.log_dirs[0] if broker is not None and len(broker.log_dirs) == 1 else UNASSIGNED

    def config(self, resource_type: int, name: str) -> dict[str, str]:
        """The dynamic settings of a resource; empty if none are set."""
        return self.configs.get((resource_type, name), {})

    def configs_of(self, resource_type: int) -> dict[str, dict[str, str]]:
        """The dynamic settings of all resources of a type, by name."""
        return {name: values for (kind, name), values in self.configs.items() if kind == resource_type and values}

    def apply(self, record: Record) -> None:
        """Apply one record.

        Raises:
            KeyError, IndexError, AssertionError: the record does not fit the image. That is a bug or a corrupt log: the
                node must stop.
        """
        match record:
            case PartitionRecord():
                self._add_partition(record)
            case PartitionChange():
                self._change_partition(record)
            case TopicRecord():
                self._add_topic(record)
            case RemoveTopic():
                self._remove_topic(record)
            case ConfigRecord():
                _set(self.configs, (record.resource_type, record.resource_name), record.name, record.value)
            case ClientQuotaRecord():
                _set(self.quotas, record.entity, record.key, record.value)
            case BrokerRecord():
                self._register_broker(record)
            case BrokerChange():
                self._change_broker(record)
            case RemoveBroker():
                del self.brokers[record.node_id]
                self.served_epochs.pop(record.node_id, None)
            case _:
                self._apply_rare(record)

    def _apply_rare(self, record: Record) -> None:
        match record:
            case ClusterRecord():
                self.cluster_id = record.cluster_id
                self.last_broker_epoch = max(self.last_broker_epoch, record.last_broker_epoch)
            case ProducerIdsRecord():
                assert record.next_producer_id >= self.next_producer_id, "producer ids are never allocated twice"
                self.next_producer_id = record.next_producer_id
            case ScramRecord():
                self.scram[record.user, record.mechanism] = record
            case RemoveScram():
                del self.scram[record.user, record.mechanism]
            case AclRecord():
                self.acls[Acl(*record.acl)] = None
            case RemoveAcl():
                del self.acls[Acl(*record.acl)]
            case DelegationTokenRecord():
                self.tokens[record.token_id] = record
            case RemoveDelegationToken():
                del self.tokens[record.token_id]
            case FeatureRecord():
                if unsupported := unsupported_level(record.name, record.level):
                    raise UnreadableRecord(unsupported)
                self.features[record.name] = record.level
                if record.level == 0:
                    del self.features[record.name]
            case _:
                raise AssertionError(f"unknown record {record!r}")

    def _add_topic(self, record: TopicRecord) -> None:
        assert record.name not in self.topics, f"topic {record.name} exists"
        topic = Topic(record.name, record.topic_id)
        self.topics[record.name] = self.topics_by_id[record.topic_id] = topic
        if has_collision_characters(record.name):
            self.colliding.setdefault(unify_collision_characters(record.name), []).append(record.name)

    def _remove_topic(self, record: RemoveTopic) -> None:
        topic = self.topics_by_id.pop(record.topic_id)
        del self.topics[topic.name]
        self.configs.pop((2, topic.name), None)
        if has_collision_characters(topic.name):
            unified = unify_collision_characters(topic.name)
            self.colliding[unified].remove(topic.name)
            if not self.colliding[unified]:
                del self.colliding[unified]

    def _add_partition(self, record: PartitionRecord) -> None:
        partitions = self.topics_by_id[record.topic_id].partitions
        assert record.partition == len(partitions), "partitions are in order"
        partitions.append(created(record))

    def _change_partition(self, record: PartitionChange) -> None:
        partitions = self.topics_by_id[record.topic_id].partitions
        partitions[record.partition] = changed(partitions[record.partition], record)

    def _register_broker(self, record: BrokerRecord) -> None:
        known = self.brokers.get(record.node_id)
        if not record.fenced:
            self.served_epochs.pop(record.node_id, None)
        elif known is not None and known.epoch != record.epoch:
            self.served_epochs.setdefault(record.node_id, known.epoch)
        self.brokers[record.node_id] = record
        self.last_broker_epoch = max(self.last_broker_epoch, record.epoch)

    def _change_broker(self, record: BrokerChange) -> None:
        broker = self.brokers[record.node_id]
        if record.fenced is False:
            self.served_epochs.pop(record.node_id, None)
        assert broker.epoch == record.epoch, "the change is for another registration of the broker"
        self.brokers[record.node_id] = replace(
            broker,
            fenced=_or(record.fenced, broker.fenced),
            in_controlled_shutdown=_or(record.in_controlled_shutdown, broker.in_controlled_shutdown),
            log_dirs=_or(record.log_dirs, broker.log_dirs),
            cordoned=_or(record.cordoned, broker.cordoned),
        )


def copy_image(image: Image) -> Image:
    """A copy that shares no mutable state with `image`."""
    topics = {name: replace(topic, partitions=list(topic.partitions)) for name, topic in image.topics.items()}
    return replace(
        image,
        topics=topics,
        topics_by_id={topic.id: topic for topic in topics.values()},
        brokers=dict(image.brokers),
        served_epochs=dict(image.served_epochs),
        configs={key: dict(values) for key, values in image.configs.items()},
        features=dict(image.features),
        quotas={entity: dict(values) for entity, values in image.quotas.items()},
        scram=dict(image.scram),
        acls=dict(image.acls),
        tokens=dict(image.tokens),
        colliding={name: list(names) for name, names in image.colliding.items()},
    )


def created(record: PartitionRecord) -> PartitionState:
    """The state of a new partition."""
    return PartitionState(
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        replicas=record.replicas,
        isr=record.isr,
        adding_replicas=record.adding_replicas,
        removing_replicas=record.removing_replicas,
        elr=record.elr,
        last_known_elr=record.last_known_elr,
        directories=record.directories,
    )


def changed(old: PartitionState, change: PartitionChange) -> PartitionState:
    """The state of a partition after a change."""
    return PartitionState(
        leader=_or(change.leader, old.leader),
        leader_epoch=old.leader_epoch + (change.leader is not None),
        partition_epoch=old.partition_epoch + 1,
        replicas=_or(change.replicas, old.replicas),
        isr=_or(change.isr, old.isr),
        adding_replicas=_or(change.adding_replicas, old.adding_replicas),
        removing_replicas=_or(change.removing_replicas, old.removing_replicas),
        elr=_or(change.elr, old.elr),
        last_known_elr=_or(change.last_known_elr, old.last_known_elr),
        directories=_aligned(old, change) if change.directories is None else change.directories,
    )


def _aligned(old: PartitionState, change: PartitionChange) -> tuple[bytes, ...]:
    if change.replicas is None or not old.directories:
        return old.directories
    return moved_directories(old, change.replicas, [UNASSIGNED] * len(change.replicas))


def moved_directories(old: PartitionState, replicas: Sequence[int], new: Sequence[bytes]) -> tuple[bytes, ...]:
    """The directories of a partition whose replicas change. A replica that stays keeps its directory; an added replica
    gets the directory of its position in `new`."""
    added = zip(replicas, new, strict=True)
    return tuple(old.directory(node) if node in old.replicas else directory for node, directory in added)


def has_collision_characters(name: str) -> bool:
    """Whether a topic name has `.` or `_`, which collide in the names of Kafka's metrics."""
    return "." in name or "_" in name


def unify_collision_characters(name: str) -> str:
    """The name with every `.` replaced by `_`. Topic names collide if this is the same for both."""
    return name.replace(".", "_")


K = TypeVar("K")
V = TypeVar("V")


def _or(given: V | None, old: V) -> V:
    return old if given is None else given


def _set(of: dict[K, dict[str, V]], key: K, name: str, value: V | None) -> None:
    """Set a value, or remove it if None; remove the key with its last value."""
    if value is not None:
        of.setdefault(key, {})[name] = value
        return
    values = of.get(key, {})
    values.pop(name, None)
    if not values:
        of.pop(key, None)
