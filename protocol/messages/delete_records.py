"""DeleteRecords, API key 21: deletes records before an offset (KIP-107).

Versions 0-2, flexible from 2 on (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import int16, int32, int64, string


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """The new log start offset per partition; -1 is the high watermark."""

    topics: list[DeleteRecordsTopic] = []
    timeout_ms: int32 = 0


@struct
class DeleteRecordsTopic:
    name: string = ""
    partitions: list[DeleteRecordsPartition] = []


@struct
class DeleteRecordsPartition:
    partition_index: int32 = 0
    offset: int64 = 0


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """The low watermark per partition: the lowest log start offset of its replicas."""

    throttle_time_ms: int32 = 0
    topics: list[DeleteRecordsTopicResult] = []


@struct
class DeleteRecordsTopicResult:
    name: string = ""
    partitions: list[DeleteRecordsPartitionResult] = []


@struct
class DeleteRecordsPartitionResult:
    partition_index: int32 = 0
    low_watermark: int64 = 0
    error_code: int16 = 0
