"""Subscriptions and assignments of classic consumers, which consumer groups decode and encode. Pure.

Source: Kafka's `ConsumerProtocol`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple, TypeVar

from minikafka.controller.metadata.image import Image
from minikafka.protocol.message import MalformedMessage, ManyElements, decode, encode
from minikafka.protocol.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

VERSION_MAX = 3
ELEMENTS_MAX = 10_000
"""As many as a ConsumerGroupHeartbeat may have: topics of a subscription, and topics and partitions that are owned."""
T = TypeVar("T")


class ClassicSubscription(NamedTuple):
    """What a classic consumer subscribes to, and the partitions that it says it has, by topic name."""

    topics: frozenset[str]
    rack_id: str | None
    owned: tuple[tuple[str, frozenset[int]], ...]

    def owned_by_id(self, image: Image) -> dict[bytes, frozenset[int]]:
        """The partitions by topic id; topics that do not exist any more are left out."""
        return {image.topics[name].id: partitions for name, partitions in self.owned if name in image.topics}


def read_subscription(metadata: bytes) -> ClassicSubscription:
    """Decode the metadata of a protocol. Raises MalformedMessage."""
    found = _decode(ConsumerProtocolSubscription, metadata)
    owned = tuple((topic.topic, frozenset(topic.partitions)) for topic in found.owned_partitions)
    return ClassicSubscription(frozenset(found.topics), found.rack_id, owned)


def read_assignment(assignment: bytes, image: Image) -> dict[bytes, frozenset[int]]:
    """Decode a member's assignment: partitions by topic id.

    Raises:
        MalformedMessage: It is none, or has data of an assignor that the coordinator does not know.
    """
    if not assignment:
        return {}
    found = _decode(ConsumerProtocolAssignment, assignment)
    if found.user_data:
        raise MalformedMessage("the assignment has data of a custom assignor, which would be lost")
    topics = {topic.topic: frozenset(topic.partitions) for topic in found.assigned_partitions}
    return {image.topics[name].id: partitions for name, partitions in topics.items() if name in image.topics}


def write_assignment_bytes(
    partitions: Mapping[bytes, Set[int] | Mapping[int, int]], metadata: bytes, image: Image
) -> bytes:
    """Encode an assignment in the version of the member's subscription; deleted topics are left out."""
    version = _version(metadata)
    assigned: Sequence[AssignmentTopicPartition] = [
        AssignmentTopicPartition(topic=topic.name, partitions=sorted(numbers))
        for topic_id, numbers in partitions.items()
        if (topic := image.topics_by_id.get(topic_id)) is not None
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=list(assigned))
    return version.to_bytes(2, "big") + encode(message, version)


def _version(data: bytes) -> int:
    """The version before a message; one above ours is read as our newest."""
    if len(data) < 2:
        raise MalformedMessage(f"{len(data)} bytes are too short for the consumer protocol")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise MalformedMessage(f"version {version} of the consumer protocol")
    return min(version, VERSION_MAX)


def _decode(kind: type[T], data: bytes) -> T:
    try:
        return decode(kind, _version(data), data, 2, ELEMENTS_MAX)
    except ManyElements:
        raise MalformedMessage(f"more than {ELEMENTS_MAX} topics and partitions") from None
