"""The JSON form of offsets per partition, identical to that of Spark's Kafka source. Pure.

`{"flights":{"0":23,"1":-1}}` maps topic to partition to offset; in options, -2 means earliest and -1 latest. With
`rememberTopicIds`, topic ids are stored as topics without partitions, `"flights@id=…": {}`, which Spark's parser
ignores.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from minikafka.protocol.names import TopicPartition, uuid_from_text, uuid_text

EARLIEST, LATEST = -2, -1
Offsets = dict[TopicPartition, int]
_ID_MARK = "@id="


def parse_assignment(text: str) -> tuple[TopicPartition, ...]:
    """Parses `{"topicA":[0,1]}`. Raises ValueError with Spark's error message."""
    try:
        pairs = [(topic, number) for topic, by_partition in _mapping(text).items() for number in by_partition]
        return tuple(dict.fromkeys(TopicPartition(topic, _whole(number)) for topic, number in pairs))
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}') from None


def parse_offsets(text: str) -> Offsets:
    """Parses `{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}`. Raises ValueError with Spark's error message."""
    try:
        return _offsets(_mapping(text))
    except (ValueError, TypeError, AttributeError):
        raise _malformed(text) from None


def _malformed(text: str) -> ValueError:
    return ValueError(f'Expected e.g. {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got {text}')


def parse_timestamps(text: str) -> Offsets:
    """Parses `{"topicA": {"0": 123456789}}`, timestamps in ms. Raises ValueError with Spark's error message."""
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
        for topic, by_partition in found.items()
        for partition, offset in by_partition.items()
    }


def _whole(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError
    return number


def to_json(offsets: Mapping[TopicPartition, int], ids: Mapping[str, bytes] | None = None) -> dict[str, dict[str, int]]:
    """Encodes the offset of a stream, sorted by topic and partition, with the topic ids of `rememberTopicIds`."""
    found: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    for topic, topic_id in sorted((ids or {}).items()):
        found[f"{topic}{_ID_MARK}{uuid_text(topic_id)}"] = {}
    return found


def from_json(by_topic: Mapping[str, Mapping[str, int]]) -> tuple[Offsets, dict[str, bytes]]:
    """Decodes the offset of a stream into offsets and topic ids. Raises ValueError with Spark's error message."""
    try:
        marked = [name.split(_ID_MARK, 1) for name in by_topic if _ID_MARK in name]
        return _offsets(by_topic), {topic: uuid_from_text(topic_id) for topic, topic_id in marked}
    except (ValueError, TypeError, AttributeError):
        raise _malformed(json.dumps(by_topic)) from None


def names(partitions: Iterable[TopicPartition]) -> str:
    """Formats partitions for error messages, as Kafka does: `flights-0, flights-1`."""
    return ", ".join(str(tp) for tp in sorted(partitions))
