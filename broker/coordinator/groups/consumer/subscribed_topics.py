"""Looks up the topics that a consumer group subscribes to in the cluster's metadata: ids, partitions and hash."""

from __future__ import annotations

from collections.abc import Iterable, Set

from minikafka.broker.coordinator.groups.consumer.topic_hash import group_hash, topic_hash
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup, SeenTopics
from minikafka.broker.coordinator.groups.state.consumer_member import ConsumerMember
from minikafka.broker.coordinator.groups.state.subscriber_counts import SubscriberCounts
from minikafka.controller.metadata.image import Image, Topic


def existing(image: Image, names: Set[str]) -> list[Topic]:
    """Those topics that exist. It looks at the names or at all topics, whichever are fewer."""
    topics = image.topics
    if len(names) > len(topics):
        return [topic for name, topic in topics.items() if name in names]
    return [topic for name in names if (topic := topics.get(name)) is not None]


def topic_ids(image: Image, names: Set[str]) -> frozenset[bytes]:
    """The ids of the topics in `names` that exist."""
    return frozenset(topic.id for topic in existing(image, names))


def topics_seen(image: Image, *subscribed: Set[str]) -> dict[bytes, int]:
    """The partition counts of the subscribed topics that exist, by topic id. A group reacts at once to a change."""
    return {topic.id: len(topic.partitions) for names in subscribed if names for topic in existing(image, names)}


def metadata_hash(image: Image, names: Set[str]) -> int:
    """The hash of the topics in `names` that exist."""
    found = existing(image, names)
    return group_hash({topic.name: topic_hash(topic.id, topic.name, racks_of(image, topic)) for topic in found})


def racks_of(image: Image, topic: Topic) -> list[list[str]]:
    """For each partition of a topic, the racks with a replica of the partition."""
    racks = {node_id: broker.rack for node_id, broker in image.brokers.items() if broker.rack is not None}
    if not racks:
        return [[]] * len(topic.partitions)
    return [sorted({racks[node] for node in one.replicas if node in racks}) for one in topic.partitions]


def has_changed(group: ConsumerGroup, image: Image) -> bool:
    """Whether the group's topics have changed since its metadata hash was computed; True if that is unknown."""
    seen = group.seen
    if seen is None or group.epoch < seen.epoch:  # The record of that epoch was never written.
        return True
    counts = group.subscribers
    return seen.topics != topics_seen(image, counts.names.keys(), counts.matched.keys())


def see_topics(group: ConsumerGroup, image: Image, epoch: int, names: Set[str]) -> None:
    """Remember the topics that the metadata hash of an epoch is computed from."""
    group.seen = SeenTopics(epoch, topics_seen(image, names))


def subscribed(image: Image, group: ConsumerGroup) -> set[str]:
    """The topics that exist and that a member subscribes to."""
    counts = group.subscribers
    return {topic.name for names in (counts.names, counts.matched) for topic in existing(image, names.keys())}


def topics_with(
    image: Image, group: ConsumerGroup, member: ConsumerMember | None, without: Iterable[str] = ()
) -> set[str]:
    """The existing topics of the group after a member is added or replaced, and other members have left.

    Args:
        member: The member that is added or replaced; None if there is none.
        without: The ids of the members that have left.
    """
    gone = SubscriberCounts()
    for member_id in {*without} if member is None else {*without, member.member_id}:
        before = group.members.get(member_id)
        if before is not None:
            gone.add(before, group.matched_by(before.pattern))
    topics = {name for name in subscribed(image, group) if group.subscribers.of(name) > gone.of(name)}
    return topics if member is None else topics.union(topic.name for topic in existing(image, group.topics_of(member)))
