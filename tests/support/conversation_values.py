"""Converts messages of conversations from and to JSON, and responses to their comparable form.

Field names are those of Kafka's messages in snake_case, omitted fields have their defaults, UUIDs are written with
dashes, bytes as text or `base64:…`, record batches as in `conversation_batches`. The comparable form omits fields
with default values and fields that are never compared (error messages, hosts), and sorts arrays by their keys.
"""

from __future__ import annotations

import json
import struct
import uuid
from typing import Any

from minikafka.protocol.apis import APIS, Api
from minikafka.protocol.codec.schema import Field, default_of
from minikafka.protocol.message import MalformedMessage, decode, encode, fields_of
from minikafka.protocol.messages import consumer_protocol, describe_quorum
from support.conversation_batches import as_bytes, as_text, decode_batches, encode_batches

API_BY_NAME: dict[str, Api] = {api.name: api for api in APIS.values()}

_UNCOMPARED = frozenset(
    (
        "error_message", "batch_index_error_message", "throttle_time_ms", "host", "port", "client_host",
        "total_bytes", "usable_bytes", "log_dir", "node_endpoints", "rack", "last_caught_up_timestamp",
        "last_fetch_timestamp", "documentation", "finalized_features_epoch",
    )
)
_UNCOMPARED_OF_QUORUM = {"ReplicaState": ("log_end_offset",), "ResponsePartitionData": ("high_watermark",)}
"""Fields of DescribeQuorum, which grow all the time."""
_KEYS = (
    "replica_id", "name", "topic", "topic_name", "group_id", "group", "partition_index", "partition", "partition_id",
    "index", "api_key", "config_name", "resource_name", "key", "node_id", "broker_id", "transactional_id",
    "producer_id", "group_instance_id", "topic_id", "metadata", "member_metadata", "member_id", "user",
    "entity_type", "entity", "mechanism",
)
_SETS_OF_NUMBERS = frozenset(("isr_nodes", "in_sync_replicas", "partitions"))
_CONSUMER_PROTOCOL: dict[str, Any] = {
    "ConsumerProtocolSubscription": consumer_protocol.ConsumerProtocolSubscription,
    "ConsumerProtocolAssignment": consumer_protocol.ConsumerProtocolAssignment,
}
_SPELLED = {
    "metadata": "ConsumerProtocolSubscription",
    "member_metadata": "ConsumerProtocolSubscription",
    "assignment": "ConsumerProtocolAssignment",
    "member_assignment": "ConsumerProtocolAssignment",
}
_ORDER_COUNTS = ("records", "synonyms")  # the order of synonyms is their precedence
_SET_ON_THE_TOPIC = 1


def to_message(cls: Any, version: int, value: dict[str, Any]) -> Any:
    """A message or struct from its JSON.

    Raises:
        ValueError: the version does not have a field.
    """
    fields = {field.name: field for field in fields_of(cls) if version in field.versions}
    if unknown := set(value) - set(fields):
        raise ValueError(f"{cls.__name__} v{version} has no {', '.join(sorted(unknown))}")
    given = {name: _to_value(fields[name], version, v) for name, v in value.items()}
    absent = {f.name: default_of(f) for f in fields_of(cls) if f.name not in given}
    return cls(**given, **absent)


def comparable(cls: Any, version: int, message: Any) -> dict[str, Any]:
    """The comparable form of a response, before values are replaced by the names in the file."""
    out: dict[str, Any] = {}
    uncompared = _UNCOMPARED.union(_grows_in(cls))
    for field in fields_of(cls):
        if version not in field.versions or field.name in uncompared:
            continue
        value = getattr(message, field.name)
        if value == default_of(field) and not _is_records(field):
            continue
        shown = _shown(field, version, value)
        if shown != {} or default_of(field) is None:
            out[field.name] = shown
    return out


def _grows_in(cls: Any) -> tuple[str, ...]:
    return _UNCOMPARED_OF_QUORUM.get(cls.__name__, ()) if cls.__module__ == describe_quorum.__name__ else ()


def spell_out(answer: Any) -> Any:
    """Decodes the bytes of the consumer protocol as requests write them; other bytes stay as they are."""
    if isinstance(answer, list):
        return [spell_out(value) for value in answer]
    if not isinstance(answer, dict):
        return answer
    return {
        k: _spelled(_SPELLED[k], v) if k in _SPELLED and isinstance(v, str) else spell_out(v)
        for k, v in answer.items()
    }


def in_one_order(answer: Any) -> Any:
    """Sorts the arrays of a response after its values were replaced by the names in the file.

    `comparable` cannot do this, since the order of ids differs between runs.
    """
    if isinstance(answer, dict):
        return {k: v if k in _ORDER_COUNTS else in_one_order(v) for k, v in answer.items()}
    if isinstance(answer, list) and all(isinstance(element, dict) for element in answer):
        return sorted(map(in_one_order, answer), key=lambda element: json.dumps(element, sort_keys=True))
    return answer


def _is_records(field: Field) -> bool:
    return field.kind is not None and field.kind.name == "records"


def _to_value(field: Field, version: int, value: Any) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_to_one(field, version, v) for v in value]
    return _to_one(field, version, value)


def _to_one(field: Field, version: int, value: Any) -> Any:
    if field.struct is not None:
        return None if value is None else to_message(field.struct, version, value)
    kind = field.kind.name if field.kind else ""
    if kind == "uuid":
        return uuid.UUID(value).bytes
    if kind == "bytes":
        return _consumer_protocol(value) if isinstance(value, dict) else as_bytes(value)
    return encode_batches(value) if kind == "records" else value


def _consumer_protocol(value: dict[str, Any]) -> bytes:
    ((what, content),) = value.items()
    name, _, version = what.partition(" v")
    return struct.pack(">h", int(version)) + encode(
        to_message(_CONSUMER_PROTOCOL[name], int(version), content), int(version)
    )


def _shown(field: Field, version: int, value: Any) -> Any:
    if _is_records(field):
        return decode_batches(bytes(value or b""))
    if not field.is_array or value is None:
        return _shown_one(field, version, value)
    shown = [_shown_one(field, version, v) for v in value]
    if field.struct is not None and field.struct.__name__ == "CreatableTopicConfigs":
        shown = [config for config in shown if config.get("config_source") == _SET_ON_THE_TOPIC]
    if field.name in _ORDER_COUNTS:
        return shown
    if field.struct is not None:
        return sorted(shown, key=_order)
    return sorted(shown) if field.name in _SETS_OF_NUMBERS else shown


def _shown_one(field: Field, version: int, value: Any) -> Any:
    if value is None:
        return None
    if field.struct is not None:
        return comparable(field.struct, version, value)
    kind = field.kind.name if field.kind else ""
    if kind == "uuid":
        return str(uuid.UUID(bytes=bytes(value)))
    return as_text(bytes(value)) if kind == "bytes" else value


def _order(element: dict[str, Any]) -> list[str]:
    values = (element.get(key, "") for key in _KEYS)
    return [f"{value:012d}" if isinstance(value, int) else str(value) for value in values]


def _spelled(name: str, text: str) -> Any:
    if not text.startswith("base64:"):
        return text
    data, cls = as_bytes(text), _CONSUMER_PROTOCOL[name]
    version = int.from_bytes(data[:2], "big")
    try:
        return {f"{name} v{version}": comparable(cls, version, decode(cls, version, data, 2))}
    except MalformedMessage:
        return text
