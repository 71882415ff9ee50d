"""Keys and values of `__consumer_offsets`, in the versions that Kafka 4.3 writes: offsets as 4, groups as 3.

A key starts with a version that identifies its type (0 and 1: committed offset, 2: classic group; consumer groups: see
`consumer_group_records.py`), a value with its own version. Other types, those of share and streams groups, are skipped.
"""

from __future__ import annotations

from typing import Any

from minikafka.broker.coordinator.groups.state.consumer_group_records import (
    check_epoch,
    decode_consumer_group_record,
    encode_consumer_group_record,
)
from minikafka.protocol.message import MalformedMessage, decode, encode, field, message
from minikafka.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from minikafka.protocol.types import NIL_UUID, int32, int64, string, uuid

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2
OFFSET_VERSION, OFFSET_VERSION_WITH_EXPIRY, GROUP_VERSION = 4, 1, 3
NEVER = -1
"""No explicit expiry."""


@message(versions="0-4", flexible="4+", name="OffsetCommitValue")
class OffsetCommitValue:
    """A committed offset, with the topic's id, which Kafka 4.3 writes as a tagged field of version 4."""

    offset: int64 = 0
    leader_epoch: int32 = field(default=-1, versions="3+", ignorable=True)
    metadata: string = ""
    commit_timestamp: int64 = 0
    expire_timestamp: int64 = field(default=NEVER, versions="1", ignorable=True)
    topic_id: uuid = field(default=NIL_UUID, versions="4+", tag=0, ignorable=True)


def encode_record(key: Any, value: Any | None) -> tuple[bytes, bytes | None]:
    """Encode key and value for the log; a value of None is a tombstone."""
    if isinstance(key, OffsetCommitKey):
        version = OFFSET_VERSION if value is None or value.expire_timestamp == NEVER else OFFSET_VERSION_WITH_EXPIRY
        return _versioned(key, OFFSET_KEY_VERSIONS[-1]), value and _versioned(value, version)
    if isinstance(key, GroupMetadataKey):
        return _versioned(key, GROUP_KEY_VERSION), value and _versioned(value, GROUP_VERSION)
    return encode_consumer_group_record(key, value)


def decode_record(key: bytes, value: bytes | None) -> tuple[Any, Any | None] | None:
    """Decode a record; None for an unknown type.

    Raises:
        MalformedMessage: The record has a known type and cannot be decoded, or its generation is impossible.
    """
    version = _version(key)
    if version in OFFSET_KEY_VERSIONS:
        kinds: tuple[type, type] = OffsetCommitKey, OffsetCommitValue
    elif version == GROUP_KEY_VERSION:
        kinds = GroupMetadataKey, GroupMetadataValue
    else:
        return decode_consumer_group_record(key, value)
    known: Any = decode(kinds[0], version, key, 2)
    decoded: Any = None if value is None else decode(kinds[1], _version(value), value, 2)
    if isinstance(decoded, GroupMetadataValue):
        check_epoch(decoded.generation)
    return known, decoded


def _versioned(part: Any, version: int) -> bytes:
    return version.to_bytes(2, "big") + encode(part, version)


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise MalformedMessage(f"{len(data)} bytes are too short for a record of __consumer_offsets")
    return int.from_bytes(data[:2], "big", signed=True)
