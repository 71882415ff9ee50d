"""Keys and values of `__consumer_offsets` for groups of the consumer protocol (KIP-848), as Kafka 4.3 writes them.

`CONSUMER_GROUP_RECORDS` lists them by the first two bytes of the key, as in `group_records.py`; all values have version
0. A group has one record of its epoch and one of its target assignment's epoch; each member has one with what it
subscribes to, one with its target, and one with what it owns; each regular expression has one with the topics found.
"""

from __future__ import annotations

from typing import Any

from minikafka.protocol.message import FRESH, MalformedMessage, decode, encode, field, message, struct
from minikafka.protocol.types import bytes_, int8, int32, int64, string, uuid

VALUE_VERSION = 0
EPOCH_MAX = 2**30
"""An epoch or generation that no group comes to: a rebalance in every second takes 34 years."""


@message(versions="3", flexible="none", name="ConsumerGroupMetadataKey")
class ConsumerGroupMetadataKey:
    """A group."""

    group_id: string = field(default="", versions="3")


@message(versions="0", flexible="0+", name="ConsumerGroupMetadataValue")
class ConsumerGroupMetadataValue:
    """The group epoch, and the hash of the subscribed topics (`topic_hash.py`) for which it was set (KIP-1101)."""

    epoch: int32 = 0
    metadata_hash: int64 = field(default=0, tag=0)


@message(versions="4", flexible="none", name="ConsumerGroupPartitionMetadataKey")
class ConsumerGroupPartitionMetadataKey:
    """A group; written up to Kafka 4.0."""

    group_id: string = field(default="", versions="4")


@message(versions="0", flexible="0+", name="ConsumerGroupPartitionMetadataValue")
class ConsumerGroupPartitionMetadataValue:
    """The subscribed topics, in place of which Kafka 4.1 and later keep a hash."""

    topics: list[TopicMetadata] = []


@struct
class TopicMetadata:
    topic_id: uuid
    topic_name: string = ""
    num_partitions: int32 = 0
    partition_metadata: list[PartitionMetadata] = []


@struct
class PartitionMetadata:
    partition: int32 = 0
    racks: list[string] = []


@message(versions="5", flexible="none", name="ConsumerGroupMemberMetadataKey")
class ConsumerGroupMemberMetadataKey:
    """A member."""

    group_id: string = field(default="", versions="5")
    member_id: string = field(default="", versions="5")


@message(versions="0", flexible="0+", name="ConsumerGroupMemberMetadataValue")
class ConsumerGroupMemberMetadataValue:
    """What a member said of itself.

    Attributes:
        classic_member_metadata: None if it uses the consumer protocol. The default, which Kafka does not write, is not
            None, whatever Kafka's schema says.
    """

    instance_id: string | None = None
    rack_id: string | None = None
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[string] = []
    subscribed_topic_regex: string | None = None
    rebalance_timeout_ms: int32 = -1
    server_assignor: string | None = None
    classic_member_metadata: ClassicMemberMetadata | None = field(default=FRESH, tag=0)


@struct
class ClassicMemberMetadata:
    session_timeout_ms: int32 = 0
    supported_protocols: list[ClassicProtocol] = []


@struct
class ClassicProtocol:
    name: string = ""
    metadata: bytes_ = b""


@message(versions="6", flexible="none", name="ConsumerGroupTargetAssignmentMetadataKey")
class ConsumerGroupTargetAssignmentMetadataKey:
    """A group."""

    group_id: string = field(default="", versions="6")


@message(versions="0", flexible="0+", name="ConsumerGroupTargetAssignmentMetadataValue")
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch of the target assignment, and when it was computed, in ms since 1970 (KIP-1263)."""

    assignment_epoch: int32 = 0
    assignment_timestamp: int64 = field(default=0, tag=0)


@message(versions="7", flexible="none", name="ConsumerGroupTargetAssignmentMemberKey")
class ConsumerGroupTargetAssignmentMemberKey:
    """A member."""

    group_id: string = field(default="", versions="7")
    member_id: string = field(default="", versions="7")


@message(versions="0", flexible="0+", name="ConsumerGroupTargetAssignmentMemberValue")
class ConsumerGroupTargetAssignmentMemberValue:
    """The partitions that a member is to have."""

    topic_partitions: list[TargetPartitions] = []


@struct
class TargetPartitions:
    topic_id: uuid
    partitions: list[int32] = []


@message(versions="8", flexible="none", name="ConsumerGroupCurrentMemberAssignmentKey")
class ConsumerGroupCurrentMemberAssignmentKey:
    """A member."""

    group_id: string = field(default="", versions="8")
    member_id: string = field(default="", versions="8")


@message(versions="0", flexible="0+", name="ConsumerGroupCurrentMemberAssignmentValue")
class ConsumerGroupCurrentMemberAssignmentValue:
    """A member's epochs, and the partitions that it owns or has yet to revoke.

    Attributes:
        state: 0 stable, 1 has to revoke partitions, 2 waits for partitions that others have to revoke.
    """

    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: list[OwnedPartitions] = []
    partitions_pending_revocation: list[OwnedPartitions] = []


@struct
class OwnedPartitions:
    """Partitions of a topic, and the epoch at which each was assigned (null before Kafka 4.3)."""

    topic_id: uuid
    partitions: list[int32] = []
    assignment_epochs: list[int32] | None = field(default=None, tag=0)


@message(versions="16", flexible="none", name="ConsumerGroupRegularExpressionKey")
class ConsumerGroupRegularExpressionKey:
    """A regular expression that a member subscribes to."""

    group_id: string = field(default="", versions="16")
    regular_expression: string = field(default="", versions="16")


@message(versions="0", flexible="0+", name="ConsumerGroupRegularExpressionValue")
class ConsumerGroupRegularExpressionValue:
    """The topics that matched, the version of the metadata, and when they were looked up, in ms since 1970."""

    topics: list[string] = []
    version: int64 = 0
    timestamp: int64 = 0


CONSUMER_GROUP_RECORDS: dict[int, tuple[Any, Any]] = {
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
"""The classes of key and value by the type of the record."""

_TYPE_OF_KEY = {key: number for number, (key, _) in CONSUMER_GROUP_RECORDS.items()}


def encode_consumer_group_record(key: Any, value: Any | None) -> tuple[bytes, bytes | None]:
    """Encode key and value for the log; a value of None is a tombstone."""
    number = _TYPE_OF_KEY[type(key)]
    encoded = None if value is None else VALUE_VERSION.to_bytes(2, "big") + encode(value, VALUE_VERSION)
    return number.to_bytes(2, "big") + encode(key, number), encoded


def decode_consumer_group_record(key: bytes, value: bytes | None) -> tuple[Any, Any | None] | None:
    """Decode a record; None for another type.

    Raises:
        MalformedMessage: The record has a known type and cannot be decoded, or its epoch is impossible.
    """
    kinds = CONSUMER_GROUP_RECORDS.get(_number(key))
    if kinds is None:
        return None
    known: Any = decode(kinds[0], _number(key), key, 2)
    decoded: Any = None if value is None else decode(kinds[1], _number(value), value, 2)
    if isinstance(decoded, ConsumerGroupMetadataValue):
        check_epoch(decoded.epoch)
    return known, decoded


def check_epoch(epoch: int) -> None:
    """Check the epoch or generation of a group, which begins at 0 and is raised by one at a time.

    Raises:
        MalformedMessage: No group comes to this epoch; the next ones could not be encoded.
    """
    if not 0 <= epoch <= EPOCH_MAX:
        raise MalformedMessage(f"a group has the impossible epoch {epoch}")


def _number(data: bytes) -> int:
    if len(data) < 2:
        raise MalformedMessage(f"{len(data)} bytes are too short for a record of __consumer_offsets")
    return int.from_bytes(data[:2], "big", signed=True)
