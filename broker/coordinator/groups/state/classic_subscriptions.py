"""Reads the topics that members of a classic group subscribe to from the metadata of their protocols. Pure.

Source: Kafka's `ClassicGroup.computeSubscribedTopics`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from minikafka.protocol.message import MalformedMessage, ManyElements, decode
from minikafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

TOPICS_READ_MAX = 20_000
"""The largest number of topic names that are read from one group's metadata; about 10 ms of a step, and 4 MB."""
_VERSION_SIZE = 2
"""The size of the version at the start of a subscription. The fields of version 0 follow: topics and user data."""


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members; None if the topics are unknown.

    They are unknown if a subscription cannot be decoded, or if the subscriptions have more than `TOPICS_READ_MAX`
    names. A member with the same topics as the member before it does not count: in most groups all members subscribe
    alike.
    """
    topics: set[str] = set()
    left, known = TOPICS_READ_MAX, b""
    for one in metadata:
        if known and one.startswith(known, _VERSION_SIZE) and _has_user_data(one, _VERSION_SIZE + len(known)):
            continue
        try:
            struct.unpack_from(">h", one)
            names = decode(ConsumerProtocolSubscription, 0, one, _VERSION_SIZE, left).topics
        except (ManyElements, MalformedMessage, struct.error):
            return None
        topics.update(names)
        left -= len(names)
        known = one[_VERSION_SIZE : _VERSION_SIZE + 4 + sum(2 + len(name.encode()) for name in names)]
    return frozenset(topics)


def _has_user_data(metadata: bytes, at: int) -> bool:
    if len(metadata) < at + 4:
        return False
    (size,) = struct.unpack_from(">i", metadata, at)
    return -1 <= size <= len(metadata) - at - 4
