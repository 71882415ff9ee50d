"""OffsetDelete, API key 47: deletes committed offsets of a group (KIP-496).

Version 0, never flexible."""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int16, int32, string


@message(key=47, versions="0", flexible="none")
class OffsetDeleteRequest:
    """Partitions of one group."""

    group_id: string = ""
    topics: list[OffsetDeleteRequestTopic] = []


@struct
class OffsetDeleteRequestTopic:
    name: string = ""
    partitions: list[OffsetDeleteRequestPartition] = []


@struct
class OffsetDeleteRequestPartition:
    partition_index: int32 = 0


@message(key=47, versions="0", flexible="none")
class OffsetDeleteResponse:
    """An error code per partition."""

    error_code: int16 = 0
    throttle_time_ms: int32 = field(default=0, ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = []


@struct
class OffsetDeleteResponseTopic:
    name: string = ""
    partitions: list[OffsetDeleteResponsePartition] = []


@struct
class OffsetDeleteResponsePartition:
    partition_index: int32 = 0
    error_code: int16 = 0
