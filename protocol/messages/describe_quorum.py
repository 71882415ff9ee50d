"""DescribeQuorum, API key 55: the voters and observers of the metadata quorum (KIP-595, KIP-836).

Versions 0-2, all flexible (KIP-482).

- v1: last fetch and last caught-up timestamps (KIP-836).
- v2: directory ids, nodes and error messages (KIP-853).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, int64, string, uint16, uuid


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    """The metadata log's partition."""

    topics: list[RequestTopicData] = []


@struct
class RequestTopicData:
    topic_name: string = ""
    partitions: list[RequestPartitionData] = []


@struct
class RequestPartitionData:
    partition_index: int32 = 0


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    """The log end offset of each replica."""

    error_code: int16 = 0
    error_message: string | None = field(default="", versions="2+", ignorable=True)
    topics: list[ResponseTopicData] = []
    nodes: list[Node] = field(default=[], versions="2+")


@struct
class ResponseTopicData:
    topic_name: string = ""
    partitions: list[ResponsePartitionData] = []


@struct
class ResponsePartitionData:
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: string | None = field(default="", versions="2+", ignorable=True)
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    high_watermark: int64 = 0
    current_voters: list[ReplicaState] = []
    observers: list[ReplicaState] = []


@struct
class ReplicaState:
    replica_id: int32 = 0
    replica_directory_id: uuid = field(default=NIL_UUID, versions="2+")
    log_end_offset: int64 = 0
    last_fetch_timestamp: int64 = field(default=-1, versions="1+", ignorable=True)
    last_caught_up_timestamp: int64 = field(default=-1, versions="1+", ignorable=True)


@struct
class Node:
    node_id: int32 = field(default=0, versions="2+")
    listeners: list[Listener] = field(default=[], versions="2+")


@struct
class Listener:
    name: string = field(default="", versions="2+")
    host: string = field(default="", versions="2+")
    port: uint16 = field(default=0, versions="2+")
