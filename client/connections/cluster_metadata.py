"""A client's cached metadata: brokers, topics, partitions and leaders, updated from Metadata responses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from minikafka.protocol.counted import counted
from minikafka.protocol.errors import (
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    error_for,
)
from minikafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.types import NIL_UUID

BEHIND_MAX = 20
"""How many responses in a row may have an older leader epoch than a committed offset names. After that, the offset
belongs to another topic of the same name. An epoch that metadata has named for the current topic id is kept."""
MISSING_PATIENCE_S = 5
"""How long a topic may be unknown before the application gets an error: brokers learn of a new topic one by one."""


def missing_patience_s(default_api_timeout_ms: float) -> float:
    """`MISSING_PATIENCE_S`, or less, so that the application gets this error before an unspecific timeout."""
    return min(MISSING_PATIENCE_S, default_api_timeout_ms / 2000)


def missing_topics(names: Sequence[str]) -> UnknownTopicOrPartitionError:
    """The error that tells the application which topics do not exist."""
    quoted = ", ".join(map(repr, names))
    return UnknownTopicOrPartitionError(
        f"topic {quoted} does not exist: create it, or have brokers create it with allow_auto_create_topics=True"
    )


def _error_of(name: str, topic: MetadataResponseTopic) -> KafkaError | None:
    """Why the metadata of a topic cannot be used: an error code, no partitions, or numbers with gaps; else None."""
    if topic.error_code:
        error = error_for(topic.error_code, f"topic {name!r}: {error_for(topic.error_code)}")
        return missing_topics([name]) if isinstance(error, UnknownTopicOrPartitionError) else error
    if not topic.partitions:
        return LeaderNotAvailableError(f"the broker names no partition of topic {name!r}")
    indexes = sorted(one.partition_index for one in topic.partitions)
    odd = next((index for at, index in enumerate(indexes) if index != at), None)
    if odd is None:
        return None
    text = f"the broker names {counted(len(indexes), 'partition')} of topic {name!r}, among them number {odd}"
    return LeaderNotAvailableError(f"{text}: not those from 0 to {len(indexes) - 1}")


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker's id and address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition; `leader` is -1 if there is none."""

    index: int
    leader: int
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    in_sync_replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; `partitions[n]` is partition n."""

    name: str
    topic_id: bytes = NIL_UUID
    partitions: tuple[Partition, ...] = ()
    is_internal: bool = False

    @property
    def available(self) -> list[int]:
        """The partitions that have a leader."""
        return [one.index for one in self.partitions if one.leader >= 0]


@dataclass(slots=True)
class Metadata:
    """The cached metadata, and the errors of requested topics.

    Attributes:
        behind: how many responses in a row were older than the cached metadata of some partition.
        learned: by topic and partition, the leader epoch of a consumer's position that no broker has named yet.
        withdrawn: by topic and partition, the last `learned` epoch that was given up because no broker knew it.
    """

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: dict[int, Broker] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    errors: dict[str, KafkaError] = field(default_factory=dict)
    behind: int = 0
    learned: dict[tuple[str, int], int] = field(default_factory=dict)
    withdrawn: dict[tuple[str, int], int] = field(default_factory=dict)

    def apply(self, response: MetadataResponse, requested: Iterable[str] | None, *, of_new: bool = False) -> None:
        """Apply a response about the topics `requested` (None: all topics).

        Args:
            of_new: the response is about topics that are not cached; a response about the other topics follows.

        Raises the response's top-level KafkaError.
        """
        if response.error_code:
            raise error_for(response.error_code)
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            one.node_id: Broker(one.node_id, one.host, one.port, one.rack) for one in response.brokers
        }
        behind, self.behind = self.behind, 0
        expected = list(self.topics) if requested is None else requested
        received = {one.name or "": one for one in response.topics}
        if requested is None:
            self.errors = {}
        for name in expected:
            if name not in received:
                self.topics.pop(name, None)
        for name, topic in received.items():
            self._apply_topic(name, topic, believed=behind >= BEHIND_MAX)
        if of_new:
            self.behind = behind
        elif self.behind:
            self.behind = behind + 1

    def _apply_topic(self, name: str, topic: MetadataResponseTopic, *, believed: bool) -> None:
        error = _error_of(name, topic)
        if error is not None:
            self.errors[name] = error
            self.topics.pop(name, None)
            return
        self.errors.pop(name, None)
        before = self.topics.get(name)
        if before is not None and before.topic_id != topic.topic_id:
            before = None
        partitions = tuple(
            self._newest(name, before, one, believed)
            for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        )
        if before is not None and before.topic_id != NIL_UUID and len(partitions) < len(before.partitions):
            partitions += before.partitions[len(partitions) :]  # A topic never loses any: the broker is behind.
            self.behind += 1
        self.topics[name] = Topic(name, topic.topic_id, partitions, topic.is_internal)

    def _newest(
        self, name: str, before: Topic | None, one: MetadataResponsePartition, believed: bool
    ) -> Partition:
        """The partition of the response, unless a later leader epoch is known already (KIP-320).

        If no broker has named this later epoch, older responses are accepted (`believed`) after `BEHIND_MAX` of them.
        """
        partition = Partition(
            one.partition_index,
            one.leader_id,
            one.leader_epoch,
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
            tuple(one.offline_replicas),
        )
        key = name, partition.index
        if before and partition.index < len(before.partitions):
            known = before.partitions[partition.index]
            if known.leader_epoch > partition.leader_epoch >= 0:
                uncertain = before.topic_id == NIL_UUID or self.learned.get(key) == known.leader_epoch
                if not (believed and uncertain and known.leader < 0):
                    self.behind += 1
                    return known
                self.withdrawn[key] = known.leader_epoch
        self.learned.pop(key, None)
        return partition

    def learn(self, topic: str, partition: int, leader: Any, endpoints: Iterable[Any]) -> bool:
        """Apply the leader that a Produce or Fetch response names (KIP-951); return whether the leader changed.

        Args:
            leader: `LeaderIdAndEpoch` of the response, ids -1 if the broker does not know.
            endpoints: the `NodeEndpoint`s of the response.
        """
        for one in endpoints:
            self.brokers[one.node_id] = Broker(one.node_id, one.host, one.port, one.rack)
        if leader.leader_epoch <= self.leader_epoch(topic, partition) or leader.leader_id not in self.brokers:
            return False
        known = self.topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return False
        partitions = list(known.partitions)
        partitions[partition] = replace(
            partitions[partition], leader=leader.leader_id, leader_epoch=leader.leader_epoch
        )
        self.topics[topic] = replace(known, partitions=tuple(partitions))
        return True

    def learn_epoch(self, topic: str, partition: int, leader_epoch: int) -> bool:
        """Forget the leader if its epoch is before `leader_epoch`, that of a position; return whether it was forgotten.

        Such a leader may be isolated, and its log may end before the position. Source: KIP-320,
        `updateLastSeenEpochIfNewer`.
        """
        known, withdrawn = self.leader_epoch(topic, partition), self.withdrawn.get((topic, partition), -1)
        if not 0 <= known < leader_epoch or leader_epoch <= withdrawn:
            return False
        self.learned[topic, partition] = leader_epoch
        partitions = list(self.topics[topic].partitions)
        partitions[partition] = replace(partitions[partition], leader=-1, leader_epoch=leader_epoch)
        self.topics[topic] = replace(self.topics[topic], partitions=tuple(partitions))
        return True

    def lacks(self, topics: Iterable[str]) -> bool:
        """Whether one of these topics has a retriable error, as a topic that does not exist yet."""
        return any(name in self.errors and self.errors[name].retriable for name in topics)

    def nonexistent(self, topics: Sequence[str]) -> list[str]:
        """Those of the given topics that do not exist according to the cached metadata."""
        return [name for name in topics if isinstance(self.errors.get(name), UnknownTopicOrPartitionError)]

    def missing(self, topic: str, partition: int) -> UnknownTopicOrPartitionError | None:
        """The error if a partition does not exist according to the cached metadata; a new partition may exist soon."""
        error, known = self.errors.get(topic), self.topics.get(topic)
        if isinstance(error, UnknownTopicOrPartitionError):
            return error
        if known is None or 0 <= partition < len(known.partitions):
            return None
        return UnknownTopicOrPartitionError(
            f"topic {topic!r} has no partition {partition}: it has 0 to {len(known.partitions) - 1}"
        )

    def leader(self, topic: str, partition: int) -> int:
        """The leader's node id; -1 if there is no leader, or it is unknown, or it is not in `brokers`."""
        known = self.topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return -1
        leader = known.partitions[partition].leader
        return leader if leader in self.brokers else -1

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The leader epoch; -1 if it is unknown."""
        known = self.topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return -1
        return known.partitions[partition].leader_epoch

    def topic_id(self, name: str) -> bytes:
        """A topic's id; the nil id if it is unknown."""
        known = self.topics.get(name)
        return known.topic_id if known else NIL_UUID

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id, or None."""
        return next((one.name for one in self.topics.values() if one.topic_id == topic_id), None)
