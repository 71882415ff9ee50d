"""OffsetCommit, API key 8: commits the offsets of a group.

Versions 2-10, flexible from 8 on (KIP-482).

- v2 to v4: retention_time_ms; from v5 on, offsets are retained while the group is not empty (KIP-211).
- v6: leader epochs (KIP-320).
- v7: static members (KIP-345).
- v9: groups of the consumer protocol may commit (KIP-848).
- v10: topic ids in place of names (KIP-848).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, int64, string, uuid


@message(key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest:
    """Offsets per partition, from a member of the group or from a consumer with manual assignment."""

    group_id: string = ""
    generation_id_or_member_epoch: int32 = field(default=-1, ignorable=True)
    member_id: string = field(default="", ignorable=True)
    group_instance_id: string | None = field(default=None, versions="7+")
    retention_time_ms: int64 = field(default=-1, versions="2-4", ignorable=True)
    topics: list[OffsetCommitRequestTopic] = []


@struct
class OffsetCommitRequestTopic:
    name: string = field(default="", versions="0-9", ignorable=True)
    topic_id: uuid = field(default=NIL_UUID, versions="10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = []


@struct
class OffsetCommitRequestPartition:
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = field(default=-1, versions="6+", ignorable=True)
    committed_metadata: string | None


@message(key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse:
    """An error code per partition."""

    throttle_time_ms: int32 = field(default=0, versions="3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = []


@struct
class OffsetCommitResponseTopic:
    name: string = field(default="", versions="0-9", ignorable=True)
    topic_id: uuid = field(default=NIL_UUID, versions="10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = []


@struct
class OffsetCommitResponsePartition:
    partition_index: int32 = 0
    error_code: int16 = 0
