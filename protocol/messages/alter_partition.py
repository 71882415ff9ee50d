"""AlterPartition, API key 56: the leader of a partition changes its in-sync replicas (KIP-497).

Versions 2-3, all flexible (KIP-482). Used between nodes only; not advertised to clients.

- v2: topics by id; INELIGIBLE_REPLICA (KIP-841).
- v3: the broker epochs of the replicas (KIP-903).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int8, int16, int32, int64, uuid


@message(key=56, versions="2-3", flexible="0+")
class AlterPartitionRequest:
    """The new in-sync replicas per partition."""

    broker_id: int32 = 0
    broker_epoch: int64 = -1
    topics: list[RequestTopicData] = []


@struct
class RequestTopicData:
    topic_id: uuid = field(default=NIL_UUID, ignorable=True)
    partitions: list[RequestPartitionData] = []


@struct
class RequestPartitionData:
    partition_index: int32 = 0
    leader_epoch: int32 = 0
    new_isr: list[int32] = field(default=[], versions="0-2")
    new_isr_with_epochs: list[BrokerState] = field(default=[], versions="3+")
    leader_recovery_state: int8 = 0
    partition_epoch: int32 = 0


@struct
class BrokerState:
    broker_id: int32 = field(default=0, versions="3+")
    broker_epoch: int64 = field(default=-1, versions="3+")


@message(key=56, versions="2-3", flexible="0+")
class AlterPartitionResponse:
    """The resulting leader and in-sync replicas per partition."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[ResponseTopicData] = []


@struct
class ResponseTopicData:
    topic_id: uuid = field(default=NIL_UUID, ignorable=True)
    partitions: list[ResponsePartitionData] = []


@struct
class ResponsePartitionData:
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    isr: list[int32] = []
    leader_recovery_state: int8 = field(default=0, ignorable=True)
    partition_epoch: int32 = 0
