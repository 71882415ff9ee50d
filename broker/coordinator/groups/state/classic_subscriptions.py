"""The topics that members of a classic group subscribe to, as far as the coordinator reads their metadata. Pure.

Source: Kafka's `ClassicGroup.computeSubscribedTopics`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from minikafka.protocol.message import MalformedMessage, ManyElements, decode
from minikafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

TOPICS_READ_MAX = 20_000
"""About 10 ms of a step, and 4 MB."""
_VERSION_SIZE = 2
"""Subscriptions begin with a version; each begins with what version 0 has: topics and user data."""


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members; None if that is not known.

    It is not if a subscription cannot be decoded, or if there are more than `TOPICS_READ_MAX` names in them. Those of a
    member that sends the same as the member before it do not count: most groups have one subscription.
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
