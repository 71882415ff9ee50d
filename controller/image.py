"""The cluster as the records tell it: brokers, topics, settings, quotas. Only `apply` changes it.

The same records in the same order give the same image: live, after a restart, from a snapshot, on a follower.
"""

from dataclasses import dataclass, field, replace
from typing import TypeVar

from minikafka.controller.records import (
    BrokerChange,
    BrokerRecord,
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    FeatureRecord,
    PartitionChange,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RemoveBroker,
    RemoveScram,
    RemoveTopic,
    ScramRecord,
    TopicRecord,
)

__all__ = ["Entity", "Image", "PartitionState", "Topic", "unify_collision_characters"]

Entity = tuple[tuple[str, str | None], ...]
"""Whom a quota is for: sorted pairs of type and name."""

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who keeps a partition.

    Attributes:
        leader: node id, -1 where there is none.
        replicas: the first is the preferred leader.
        isr: replicas in sync, in no particular order.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


@dataclass(slots=True)
class Topic:
    """A topic; `partitions` is indexed by partition number."""

    name: str
    id: bytes
    partitions: list[PartitionState] = field(default_factory=list)


@dataclass(slots=True)
class Image:
    """Everything that the cluster knows about itself.

    Attributes:
        cluster_id: "" until the first record.
        topics: by name, in order of creation.
        topics_by_id: the same topics by their 16 bytes.
        brokers: the last registration of each node.
        configs: settings in force of a resource, by (resource type, name).
        features: finalized levels by name.
        next_producer_id: the first that no broker was given.
        quotas: key to value, by entity.
        scram: credentials by (user, mechanism).
        colliding: names with `.` or `_`, by the name in which all are `_`.
    """

    cluster_id: str = ""
    topics: dict[str, Topic] = field(default_factory=dict)
    topics_by_id: dict[bytes, Topic] = field(default_factory=dict)
    brokers: dict[int, BrokerRecord] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    scram: dict[tuple[str, int], ScramRecord] = field(default_factory=dict)
    colliding: dict[str, list[str]] = field(default_factory=dict)

    def is_alive(self, node_id: int) -> bool:
        """Whether a broker is registered and not fenced."""
        broker = self.brokers.get(node_id)
        return broker is not None and not broker.fenced

    def live_brokers(self) -> list[int]:
        """The ids of those that are alive, in order."""
        return sorted(node_id for node_id in self.brokers if self.is_alive(node_id))

    def config(self, resource_type: int, name: str) -> dict[str, str]:
        """The settings of a resource; empty where none are set."""
        return self.configs.get((resource_type, name), {})

    def apply(self, record: Record) -> None:
        """Change the image by one committed record.

        Raises:
            KeyError, IndexError, AssertionError: when the record does not fit what came before it. That is a
                bug or a rotten log: the node must stop.
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
                self.brokers[record.node_id] = record
            case BrokerChange():
                self._change_broker(record)
            case RemoveBroker():
                del self.brokers[record.node_id]
            case _:
                self._apply_rare(record)

    def _apply_rare(self, record: Record) -> None:
        match record:
            case ClusterRecord():
                self.cluster_id = record.cluster_id
            case ProducerIdsRecord():
                assert record.next_producer_id >= self.next_producer_id, "producer ids are never given twice"
                self.next_producer_id = record.next_producer_id
            case ScramRecord():
                self.scram[record.user, record.mechanism] = record
            case RemoveScram():
                del self.scram[record.user, record.mechanism]
            case FeatureRecord():
                self.features[record.name] = record.level
                if record.level == 0:
                    del self.features[record.name]
            case _:
                raise AssertionError(f"nobody applies {record!r}")

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
        assert record.partition == len(partitions), "partitions come in their order"
        partitions.append(
            PartitionState(
                leader=record.leader,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
                replicas=record.replicas,
                isr=record.isr,
                adding_replicas=record.adding_replicas,
                removing_replicas=record.removing_replicas,
            )
        )

    def _change_partition(self, record: PartitionChange) -> None:
        partitions = self.topics_by_id[record.topic_id].partitions
        old = partitions[record.partition]
        changed = {
            name: value
            for name in ("isr", "leader", "replicas", "adding_replicas", "removing_replicas")
            if (value := getattr(record, name)) is not None
        }
        if record.leader is not None:
            changed["leader_epoch"] = old.leader_epoch + 1
        partitions[record.partition] = replace(old, partition_epoch=old.partition_epoch + 1, **changed)

    def _change_broker(self, record: BrokerChange) -> None:
        broker = self.brokers[record.node_id]
        assert broker.epoch == record.epoch, "an older registration of the broker was meant"
        self.brokers[record.node_id] = replace(broker, fenced=record.fenced)


def has_collision_characters(name: str) -> bool:
    """Whether a topic name has `.` or `_`, which are the same in the names of Kafka's metrics."""
    return "." in name or "_" in name


def unify_collision_characters(name: str) -> str:
    """The name that it shares with all that it collides with."""
    return name.replace(".", "_")


K = TypeVar("K")
V = TypeVar("V")


def _set(of: dict[K, dict[str, V]], key: K, name: str, value: V | None) -> None:
    """Set or, with None, take away; what has nothing left is not kept."""
    if value is not None:
        of.setdefault(key, {})[name] = value
        return
    values = of.get(key, {})
    values.pop(name, None)
    if not values:
        of.pop(key, None)
