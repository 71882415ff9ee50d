"""DescribeProducers, API key 61: the active producers of partitions (KIP-664).

Version 0, flexible (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import int16, int32, int64, string


@message(key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    """Partitions."""

    topics: list[TopicRequest] = []


@struct
class TopicRequest:
    name: string = ""
    partition_indexes: list[int32] = []


@message(key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    """The last sequence, epoch and open transaction of each producer."""

    throttle_time_ms: int32 = 0
    topics: list[TopicResponse] = []


@struct
class TopicResponse:
    name: string = ""
    partitions: list[PartitionResponse] = []


@struct
class PartitionResponse:
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    active_producers: list[ProducerState] = []


@struct
class ProducerState:
    producer_id: int64 = 0
    producer_epoch: int32 = 0
    last_sequence: int32 = -1
    last_timestamp: int64 = -1
    coordinator_epoch: int32 = 0
    current_txn_start_offset: int64 = -1
