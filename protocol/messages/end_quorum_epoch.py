"""EndQuorumEpoch, API key 54: a leader of the quorum resigns (KIP-595).

Versions 0-1, flexible from 1 on (KIP-482).

- v1: endpoints, and candidates instead of successors (KIP-853).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, string, uint16, uuid


@message(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochRequest:
    """Sent between controllers of Apache Kafka."""

    cluster_id: string | None = None
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
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    preferred_successors: list[int32] = field(default=[], versions="0", ignorable=True)
    preferred_candidates: list[ReplicaInfo] = field(default=[], versions="1+", ignorable=True)


@struct
class ReplicaInfo:
    candidate_id: int32 = field(default=0, versions="1+")
    candidate_directory_id: uuid = field(default=NIL_UUID, versions="1+")


@message(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochResponse:
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
