"""Offsets per partition: as JSON, in the very form of Spark's Kafka source, and how far a micro-batch goes. Pure.

`{"flights":{"0":23,"1":-1}}`: topic, partition, offset; -2 is earliest and -1 latest, where a user writes them. With
`rememberTopicIds` a topic's id is kept beside them as a topic without partitions, `"flights@id=…": {}`, which Spark's
own reader of this JSON passes over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from minikafka.protocol.names import TopicPartition, uuid_from_text, uuid_text

EARLIEST, LATEST = -2, -1
Offsets = dict[TopicPartition, int]
_ID_MARK = "@id="
_INT64_MAX = (1 << 63) - 1


def parse_assignment(text: str) -> tuple[TopicPartition, ...]:
    """`{"topicA":[0,1]}`. Raises ValueError in Spark's words."""
    try:
        pairs = [(topic, number) for topic, some in _mapping(text).items() for number in some]
        return tuple(dict.fromkeys(TopicPartition(topic, _whole(number)) for topic, number in pairs))
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}') from None


def parse_offsets(text: str) -> Offsets:
    """`{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}`. Raises ValueError in Spark's words."""
    try:
        return _offsets(_mapping(text))
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f'Expected e.g. {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got {text}') from None


def parse_timestamps(text: str) -> Offsets:
    """`{"topicA": {"0": 123456789}}`, times in ms. Raises ValueError in Spark's words."""
    try:
        return _offsets(_mapping(text))
    except (ValueError, TypeError, AttributeError):
        raise ValueError(
            'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789},\n"topicB": {"0": 123456789, "1": 123456789}},'
            f" got {text}"
        ) from None


def _mapping(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError
    return found


def _offsets(found: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): _whole(offset)
        for topic, some in found.items()
        for partition, offset in some.items()
    }


def _whole(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError
    return number


def to_json(offsets: Mapping[TopicPartition, int], ids: Mapping[str, bytes] | None = None) -> dict[str, dict[str, int]]:
    """The offset of a stream, topics and partitions in order, with topic ids where some are to be remembered."""
    found: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    for topic, topic_id in sorted((ids or {}).items()):
        found[f"{topic}{_ID_MARK}{uuid_text(topic_id)}"] = {}
    return found


def from_json(found: Mapping[str, Mapping[str, int]]) -> tuple[Offsets, dict[str, bytes]]:
    """The offsets and the topic ids of a stream's offset."""
    offsets: Offsets = {}
    ids: dict[str, bytes] = {}
    for name, some in found.items():
        topic, mark, topic_id = name.partition(_ID_MARK)
        if mark:
            ids[topic] = uuid_from_text(topic_id)
        offsets |= {TopicPartition(name, int(partition)): int(offset) for partition, offset in some.items()}
    return offsets, ids


def prorate(limit: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Offsets:
    """Where a micro-batch of about `limit` offsets ends: partitions give by their share of the backlog, at least one.

    The formula of Spark's `KafkaMicroBatchStream.rateLimit`. A partition missing in `start` goes to its end.
    """
    sizes = {tp: end[tp] - start[tp] for tp in end if tp in start and end[tp] > start[tp]}
    total = sum(sizes.values())
    if total < 1:
        return dict(end)
    ends: Offsets = {}
    for tp, last in end.items():
        if tp not in sizes:
            ends[tp] = last
            continue
        share = limit * (sizes[tp] / float(total))
        whole = math.ceil(share) if share < 1 else math.floor(share)
        ends[tp] = min(last, start[tp] + whole, _INT64_MAX)
    return ends


def backlog(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    """Offsets from `start` to `end`; a partition that `start` lacks counts from 0."""
    return sum(offset - start.get(tp, 0) for tp, offset in end.items())


def names(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for people, as Kafka writes them."""
    return ", ".join(str(tp) for tp in sorted(partitions))
