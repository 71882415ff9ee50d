"""ListOffsets, API key 2: finds offsets by timestamp, or the ends of a log.

Versions 1-11, flexible from 6 on (KIP-482).

- v2: isolation_level (KIP-98).
- v4: leader epochs (KIP-320).
- v5: OFFSET_NOT_AVAILABLE while a new leader does not know its high watermark (KIP-207).
- v7: timestamp -3, the record with the maximum timestamp (KIP-734).
- v8: timestamp -4, the earliest local offset (KIP-405).
- v9: timestamp -5, the last offset in tiered storage (KIP-1005).
- v10: timeout_ms, for look-ups in tiered storage (KIP-1075).
- v11: timestamp -6, the earliest offset that is not in tiered storage yet (KIP-1023).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int8, int16, int32, int64, string


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest:
    """A timestamp per partition: -1 latest, -2 earliest, -3 maximum timestamp, -4 earliest local, …"""

    replica_id: int32 = 0
    isolation_level: int8 = field(default=0, versions="2+")
    topics: list[ListOffsetsTopic] = []
    timeout_ms: int32 = field(default=0, versions="10+", ignorable=True)


@struct
class ListOffsetsTopic:
    name: string = ""
    partitions: list[ListOffsetsPartition] = []


@struct
class ListOffsetsPartition:
    partition_index: int32 = 0
    current_leader_epoch: int32 = field(default=-1, versions="4+", ignorable=True)
    timestamp: int64 = 0


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse:
    """The offset of the first record with that timestamp or a later one, and its timestamp."""

    throttle_time_ms: int32 = field(default=0, versions="2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = []


@struct
class ListOffsetsTopicResponse:
    name: string = ""
    partitions: list[ListOffsetsPartitionResponse] = []


@struct
class ListOffsetsPartitionResponse:
    partition_index: int32 = 0
    error_code: int16 = 0
    timestamp: int64 = -1
    offset: int64 = -1
    leader_epoch: int32 = field(default=-1, versions="4+")
