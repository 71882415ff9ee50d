"""Converts keys and values of records to text; decodes those of internal topics, like Kafka's `kafka-dump-log`."""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

from minikafka.broker.coordinator.groups.state.consumer_group_records import CONSUMER_GROUP_RECORDS
from minikafka.broker.coordinator.groups.state.group_records import OffsetCommitValue
from minikafka.protocol.message import MalformedMessage, decode, fields_of
from minikafka.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from minikafka.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from minikafka.protocol.names import uuid_text
from minikafka.protocol.records.record import Record
from minikafka.protocol.types import UUID
from minikafka.protocol.visible import visible_json

Describe = Callable[[Record], str]
"""Returns the text for the key and the value of a record."""
Types = dict[int, tuple[Any, Any]]
"""The classes of key and value by the version of the key."""

TYPES: dict[str, Types] = {
    "__consumer_offsets": {
        0: (OffsetCommitKey, OffsetCommitValue),
        1: (OffsetCommitKey, OffsetCommitValue),
        2: (GroupMetadataKey, GroupMetadataValue),
        **CONSUMER_GROUP_RECORDS,
    },
    "__transaction_state": {0: (TransactionLogKey, TransactionLogValue)},
}


def describer_of(topic: str) -> Describe:
    """The function that converts the records of a topic to text."""
    types = TYPES.get(topic)
    return plain if types is None else lambda record: decoded(record, types)


def plain(record: Record) -> str:
    """Key and value of a record as text, without decoding."""
    return f"key: {shown(record.key)} payload: {shown(record.value)}"


def decoded(record: Record, types: Types) -> str:
    """Key and value of a record as JSON, or without decoding if the type or version is unknown."""
    try:
        version = _version(record.key)
        key = _json("type", types[version][0], record.key)
        value = "<DELETE>" if record.value is None else _json("version", types[version][1], record.value)
    except (MalformedMessage, KeyError):
        return plain(record)
    return f"key: {key} payload: {value}"


def shown(value: bytes | None) -> str:
    """Bytes as text if they are UTF-8, else in hex; `null` for None."""
    if value is None:
        return "null"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "0x" + value.hex()
    return text if text.isprintable() else json.dumps(text)


def _json(name: str, kind: Any, data: bytes | None) -> str:
    """Decode a key or value to JSON, with its version named `name`. Raises MalformedMessage."""
    version = _version(data)
    content = _content(decode(kind, version, data or b"", 2), version)
    return visible_json(json.dumps({name: str(version), "data": content}, separators=(",", ":"), ensure_ascii=False))


def _version(data: bytes | None) -> int:
    if data is None or len(data) < 2:
        raise MalformedMessage("no version")
    return int.from_bytes(data[:2], "big", signed=True)


def _content(value: Any, version: int) -> Any:
    """A message as JSON, with Kafka's names. Tagged fields that are at their default are left out."""
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_content(one, version) for one in value]
    kind: Any = type(value)
    if not hasattr(kind, "__declaration__"):
        return value
    return {
        _camel(item.name): _content(uuid_text(found) if item.kind is UUID else found, version)
        for item in fields_of(kind)
        if version in item.versions
        and ((found := getattr(value, item.name)) != item.default or item.tag is None)
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
