"""`merge_topics`: merges the topics that several parts of a node answer into the one list of a response."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar


class _AnsweredTopic(Protocol):
    name: str
    partitions: list[Any]


_Topic = TypeVar("_Topic", bound=_AnsweredTopic)


def merge_topics(topics: list[_Topic], more: Iterable[_Topic]) -> None:
    """Add `more` to `topics`, with one entry for each topic, as Kafka's response builders make them."""
    by_name = {topic.name: topic for topic in topics}
    for topic in more:
        if topic.name in by_name:
            by_name[topic.name].partitions += topic.partitions
        else:
            topics.append(topic)
