"""The topics that a consumer group subscribes to, and their ids, partitions and hash in the cluster's metadata."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.broker.coordinator.groups.consumer.topic_hash import group_hash, topic_hash
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup, SeenTopics
from minikafka.broker.coordinator.groups.state.consumer_member import ConsumerMember
from minikafka.controller.metadata.image import Image, Topic


def topic_ids(image: Image, names: Iterable[str]) -> frozenset[bytes]:
    """The ids of those topics that exist."""
    return frozenset(topic.id for name in names if (topic := image.topics.get(name)) is not None)


def topics_seen(image: Image, names: Iterable[str]) -> tuple[tuple[bytes, int], ...]:
    """Ids and numbers of partitions of those topics that exist: what a group reacts to at once if it changes."""
    return tuple(
        (topic.id, len(topic.partitions)) for name in sorted(names) if (topic := image.topics.get(name)) is not None
    )


def metadata_hash(image: Image, names: Iterable[str]) -> int:
    """The hash of those topics that exist."""
    found = {name: topic for name in names if (topic := image.topics.get(name)) is not None}
    return group_hash({name: topic_hash(topic.id, name, racks_of(image, topic)) for name, topic in found.items()})


def racks_of(image: Image, topic: Topic) -> list[list[str]]:
    """The racks with a replica of each partition."""
    racks = {node_id: broker.rack for node_id, broker in image.brokers.items() if broker.rack is not None}
    if not racks:
        return [[]] * len(topic.partitions)
    return [sorted({racks[node] for node in one.replicas if node in racks}) for one in topic.partitions]


def has_changed(group: ConsumerGroup, image: Image) -> bool:
    """Whether the group's topics have changed since its metadata hash was computed, or nobody knows."""
    seen = group.seen
    if seen is None or group.epoch < seen.epoch:  # The record of that epoch was never written.
        return True
    return seen.topics != topics_seen(image, group.subscribed_topics)


def see_topics(group: ConsumerGroup, image: Image, epoch: int, names: Iterable[str]) -> None:
    """Remember the topics that the metadata hash of an epoch is computed from."""
    group.seen = SeenTopics(epoch, topics_seen(image, names))


def topics_with(group: ConsumerGroup, member: ConsumerMember, without: Iterable[str] = ()) -> frozenset[str]:
    """The group's topics once a member is added or replaced, and others have left.

    Args:
        without: Ids of members that are gone.
    """
    gone = {member.member_id, *without}
    return group.topics_of(member).union(
        *(group.topics_of(other) for other in group.members.values() if other.member_id not in gone)
    )
