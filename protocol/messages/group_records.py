"""Keys and values of the records in ``__consumer_offsets``, as Kafka writes them for classic groups.

Keys and values begin with a 16-bit version; the version of a key is its type: 0 and 1 offsets, 2 groups. A null value
is a tombstone. Offsets: v1 expire_timestamp, v3 leader epochs (KIP-320). Groups: v1 rebalance_timeout, v2
current_state_timestamp (KIP-211), v3 static members (KIP-345). Values of version 4 are flexible.
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import bytes_, int32, int64, string


@message(versions="0-1", flexible="none")
class OffsetCommitKey:
    """Group, topic and partition of a committed offset."""

    group: string = field(default="", versions="0-1")
    topic: string = field(default="", versions="0-1")
    partition: int32 = field(default=0, versions="0-1")


@message(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """A committed offset."""

    offset: int64 = 0
    leader_epoch: int32 = field(default=-1, versions="3+", ignorable=True)
    metadata: string = ""
    commit_timestamp: int64 = 0
    expire_timestamp: int64 = field(default=-1, versions="1", ignorable=True)


@message(versions="2", flexible="none")
class GroupMetadataKey:
    """A group."""

    group: string = field(default="", versions="2")


@message(versions="0-4", flexible="4+")
class GroupMetadataValue:
    """A group's generation and members, written when a rebalance ends."""

    protocol_type: string = ""
    generation: int32 = 0
    protocol: string | None
    leader: string | None
    current_state_timestamp: int64 = field(default=-1, versions="2+", ignorable=True)
    members: list[MemberMetadata] = []


@struct
class MemberMetadata:
    member_id: string = ""
    group_instance_id: string | None = field(default=None, versions="3+", ignorable=True)
    client_id: string = ""
    client_host: string = ""
    rebalance_timeout: int32 = field(default=-1, versions="1+", ignorable=True)
    session_timeout: int32 = 0
    subscription: bytes_ = b""
    assignment: bytes_ = b""
