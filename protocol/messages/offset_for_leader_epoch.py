"""OffsetForLeaderEpoch, API key 23: finds the end offset of a leader epoch (KIP-101, KIP-320).

Versions 2-4, flexible from 4 on (KIP-482).

- v3: replica_id, to distinguish followers from consumers (KIP-392).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int16, int32, int64, string


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """A leader epoch per partition."""

    replica_id: int32 = field(default=-2, versions="3+", ignorable=True)
    topics: list[OffsetForLeaderTopic] = []


@struct
class OffsetForLeaderTopic:
    topic: string = ""
    partitions: list[OffsetForLeaderPartition] = []


@struct
class OffsetForLeaderPartition:
    partition: int32 = 0
    current_leader_epoch: int32 = field(default=-1, ignorable=True)
    leader_epoch: int32 = 0


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """The largest epoch not above the requested one, and its end offset."""

    throttle_time_ms: int32 = field(default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = []


@struct
class OffsetForLeaderTopicResult:
    topic: string = ""
    partitions: list[EpochEndOffset] = []


@struct
class EpochEndOffset:
    error_code: int16 = 0
    partition: int32 = 0
    leader_epoch: int32 = field(default=-1, ignorable=True)
    end_offset: int64 = -1
