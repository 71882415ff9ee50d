"""BeginQuorumEpoch, API key 53: a new leader of the quorum announces itself (KIP-595).

Versions 0-1, flexible from 1 on (KIP-482).

- v1: endpoints and directory ids (KIP-853).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, string, uint16, uuid


@message(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochRequest:
    """Sent between controllers of Apache Kafka."""

    cluster_id: string | None = None
    voter_id: int32 = field(default=-1, versions="1+", ignorable=True)
    topics: list[RequestTopicData] = []
    leader_endpoints: list[LeaderEndpoint] = field(default=[], versions="1+", ignorable=True)


@struct
class RequestTopicData:
    topic_name: string = ""
    partitions: list[RequestPartitionData] = []


@struct
class LeaderEndpoint:
    name: string = field(default="", versions="1+")
    host: string = field(default="", versions="1+")
    port: uint16 = field(default=0, versions="1+")


@struct
class RequestPartitionData:
    partition_index: int32 = 0
    voter_directory_id: uuid = field(default=NIL_UUID, versions="1+", ignorable=True)
    leader_id: int32 = 0
    leader_epoch: int32 = 0


@message(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochResponse:
    """The leader and epoch that the receiver knows."""

    error_code: int16 = 0
    topics: list[ResponseTopicData] = []
    node_endpoints: list[NodeEndpoint] = field(default=[], versions="1+", tag=0)


@struct
class ResponseTopicData:
    topic_name: string = ""
    partitions: list[ResponsePartitionData] = []


@struct
class NodeEndpoint:
    node_id: int32 = field(default=0, versions="1+")
    host: string = field(default="", versions="1+")
    port: uint16 = field(default=0, versions="1+")


@struct
class ResponsePartitionData:
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
