"""`named_things`: the topics, partitions, groups and transactions that a request names, whatever its API is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from minikafka.protocol.codec.schema import Field, fresh
from minikafka.protocol.message import fields_of

__all__ = ["NamedThings", "copy_of", "fields_in", "join", "named_things", "without"]

_TOPIC_NAMES = ("topic", "topic_name", "name")
_PARTITION_NUMBERS = ("partition", "partition_index", "index", "partition_id")
_GROUPS = ("group_id", "group_ids", "groups_names", "groups")
_TRANSACTIONAL_IDS = ("transactional_id", "transactional_ids", "v3_and_below_transactional_id")
_NO_ID = bytes(16)
Names = Callable[[bytes], str]
"""Returns the name of the topic of an id; "" if there is none."""
Keeps = Callable[[str, int | None], bool]
"""Whether a partition is kept, by its topic and number; the number is None if the request names topics only."""


@dataclass
class NamedThings:
    """What a request names; partitions are None in requests that name topics only."""

    partitions: list[tuple[str, int | None]] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)
    transactional_ids: set[str] = field(default_factory=set)


def fields_in(message: Any) -> tuple[Field, ...]:
    """The declared fields of a message or struct."""
    kind: Any = type(message)
    return tuple(fields_of(kind))


def named_things(request: Any, names: Names) -> NamedThings:
    """Find what a request names."""
    found = NamedThings()
    _collect(request, names, found)
    key_type = getattr(request, "key_type", None)
    if key_type is not None:  # FindCoordinator
        keys = {key for key in (request.key, *request.coordinator_keys) if key}
        (found.transactional_ids if key_type == 1 else found.groups).update(keys)
    return found


def _collect(struct: Any, names: Names, found: NamedThings) -> None:
    for declared in fields_in(struct):
        value = getattr(struct, declared.name)
        if declared.name in _GROUPS:
            found.groups.update(_texts(value))
        elif declared.name in _TRANSACTIONAL_IDS:
            found.transactional_ids.update(_texts(value))
        if declared.struct is None:
            continue
        for element in value or () if declared.is_array else [value]:
            topic = _topic_of(element, names)
            if topic is not None:
                found.partitions += [(topic, number) for number in _numbers_of(element)]
            elif element is not None:
                _collect(element, names, found)


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, str) and one]


def _topic_of(struct: Any, names: Names) -> str | None:
    """The topic that an element of an array is about; None if it is not about a topic."""
    if struct is None or (_partitions_of(struct) is None and not _is_topic(struct)):
        return None
    for name in _TOPIC_NAMES:
        if isinstance(text := getattr(struct, name, None), str) and text:
            return text
    topic_id = getattr(struct, "topic_id", _NO_ID)
    return names(topic_id) if topic_id != _NO_ID else None


def _is_topic(struct: Any) -> bool:
    return "Topic" in type(struct).__name__


def _is_of_partitions(declared: Field) -> bool:
    return declared.is_array and "partition" in declared.name


def _partitions_of(topic: Any) -> Field | None:
    """The declaration of the array of a topic's partitions; None if the request names topics only."""
    return next((declared for declared in fields_in(topic) if _is_of_partitions(declared)), None)


def _number_of(partition: Any) -> int:
    if isinstance(partition, int):
        return partition
    return next(int(getattr(partition, name)) for name in _PARTITION_NUMBERS if hasattr(partition, name))


def _numbers_of(topic: Any) -> Iterator[int | None]:
    declared = _partitions_of(topic)
    if declared is None or not (partitions := getattr(topic, declared.name)):
        yield None
        return
    for partition in partitions:
        yield _number_of(partition)


def without(message: Any, names: Names, keeps: Keeps) -> None:
    """Take all partitions out of a request or response that are not kept, and topics of which none is left."""
    for declared in fields_in(message):
        value = getattr(message, declared.name)
        if declared.struct is None or not value:
            continue
        if not declared.is_array:
            without(value, names, keeps)
            continue
        kept = []
        for element in value:
            topic = _topic_of(element, names)
            if topic is None:
                without(element, names, keeps)
                kept.append(element)
            elif _keep_partitions(element, topic, keeps):
                kept.append(element)
        setattr(message, declared.name, kept)


def _keep_partitions(element: Any, topic: str, keeps: Keeps) -> bool:
    """Take out the partitions of a topic that are not kept; returns whether something is left of it."""
    declared = _partitions_of(element)
    if declared is None or not (partitions := getattr(element, declared.name)):
        return keeps(topic, None)
    left = [one for one in partitions if keeps(topic, _number_of(one))]
    setattr(element, declared.name, left)
    return bool(left)


def copy_of(message: Any) -> Any:
    """A copy of a message with lists and structs of its own; other values, such as records, are shared."""
    copied = fresh(type(message))
    for declared in fields_in(message):
        value = getattr(message, declared.name)
        if declared.is_array and value is not None:
            value = [copy_of(one) if declared.struct is not None else one for one in value]
        elif declared.struct is not None and value is not None:
            value = copy_of(value)
        setattr(copied, declared.name, value)
    return copied


def join(response: Any, other: Any, names: Names) -> None:
    """Put the partitions of another response to the same request into `response`.

    What contains topics, such as the groups of OffsetFetch, is in both, in the same order.
    """
    for declared in fields_in(other):
        value = getattr(other, declared.name)
        if declared.struct is None or not value:
            continue
        there = getattr(response, declared.name)
        if not declared.is_array:
            join(there, value, names)
            continue
        for index, element in enumerate(value):
            topic = _topic_of(element, names)
            if topic is not None:
                _join_topic(there, element, topic, names)
            elif index < len(there):
                join(there[index], element, names)
            else:
                there.append(element)


def _join_topic(there: list[Any], element: Any, topic: str, names: Names) -> None:
    same = next((one for one in there if _topic_of(one, names) == topic), None)
    partitions = _partitions_of(element)
    if same is None or partitions is None:
        there.append(element)
    else:
        getattr(same, partitions.name).extend(getattr(element, partitions.name))
