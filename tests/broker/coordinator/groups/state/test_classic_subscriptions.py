"""What the coordinator reads of the subscriptions of classic consumers: the topics, of a bounded number of names."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from minikafka.broker.coordinator.groups.state import classic_subscriptions
from minikafka.broker.coordinator.groups.state.classic_subscriptions import TOPICS_READ_MAX, subscribed_topics
from minikafka.protocol.message import decode, encode
from minikafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, SubscriptionTopicPartition


def subscription(topics: list[str], *, version: int = 1, user_data: bytes | None = None, **more: Any) -> bytes:
    message = ConsumerProtocolSubscription(topics=topics, user_data=user_data, **more)
    return version.to_bytes(2, "big") + encode(message, version)


def many(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def owned(index: int) -> list[SubscriptionTopicPartition]:
    return [SubscriptionTopicPartition(topic="a", partitions=[index])]


A, B = frozenset({"a"}), frozenset({"b"})
HALF = TOPICS_READ_MAX // 2
GIVEN: dict[str, tuple[list[bytes], frozenset[str] | None]] = {
    "nobody": ([], frozenset()),
    "different topics": ([subscription(["a"]), subscription(["b"]), subscription(["a"])], A | B),
    "nothing, and then something": ([subscription([]), subscription(["b"]), subscription([])], B),
    "more than the one before": ([subscription(["a"]), subscription(["a", "b"])], A | B),
    "the topics of the one before are a beginning of its bytes": (
        [subscription(["a"]), struct.pack(">hi", 1, 1) + b"\x00\x01a" + struct.pack(">i", 7) + b"short"],
        None,
    ),
    "too short after the topics": ([subscription(["a"]), subscription(["a"], version=0)[:-1]], None),
    "no version": ([subscription(["a"]), b"\x00"], None),
    "empty": ([b""], None),
    "as many names as are read": ([subscription(many("a", HALF)), subscription(many("b", HALF))],
                                  frozenset(many("a", HALF)) | frozenset(many("b", HALF))),
    "one name more": ([subscription(many("a", HALF)), subscription(many("b", HALF + 1))], None),
    "the same again and again": (
        [
            subscription(many("a", HALF), user_data=bytes(number % 3) or None, owned_partitions=owned(number))
            for number in range(50)
        ],
        frozenset(many("a", HALF)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("given", GIVEN)
def test_topics_of_subscriptions(given: str) -> None:
    metadata, expected = GIVEN[given]
    assert subscribed_topics(metadata) == expected


@pytest.mark.parametrize("prefix", ["{member}.", ""], ids=["different", "the same"])
def test_the_names_that_are_decoded_are_bounded(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    """However many members have however much metadata; 14 members with 960 KB each took 0.8 s and 200 MiB."""
    decoded = 0

    def counting(cls: Callable[..., Any], version: int, data: bytes, offset: int, elements_max: int) -> Any:
        nonlocal decoded
        found = decode(cls, version, data, offset, elements_max)  # type: ignore[type-var]
        decoded += len(found.topics)  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(classic_subscriptions, "decode", counting)
    subscribed_topics(
        subscription(many(prefix.format(member=member), 1_000), user_data=bytes(member)) for member in range(100)
    )
    assert decoded <= (TOPICS_READ_MAX if prefix else 1_000)
