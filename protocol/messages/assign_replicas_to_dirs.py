"""AssignReplicasToDirs, API key 73: a broker tells the controller in which data directories its replicas are (KIP-858).

Version 0, flexible (KIP-482). Used between nodes only; not advertised to clients.
"""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, int64, uuid


@message(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsRequest:
    """The replicas in each directory of a broker."""

    broker_id: int32 = 0
    broker_epoch: int64 = -1
    directories: list[RequestDirectoryData] = []


@struct
class RequestDirectoryData:
    id: uuid = NIL_UUID
    topics: list[RequestTopicData] = []


@struct
class RequestTopicData:
    topic_id: uuid = NIL_UUID
    partitions: list[RequestPartitionData] = []


@struct
class RequestPartitionData:
    partition_index: int32 = 0


@message(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse:
    """A result for each replica."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    directories: list[ResponseDirectoryData] = []


@struct
class ResponseDirectoryData:
    id: uuid = NIL_UUID
    topics: list[ResponseTopicData] = []


@struct
class ResponseTopicData:
    topic_id: uuid = NIL_UUID
    partitions: list[ResponsePartitionData] = []


@struct
class ResponsePartitionData:
    partition_index: int32 = 0
    error_code: int16 = 0
