"""Vote, API key 52: a candidate of the quorum asks for a vote (KIP-595).

Versions 0-2, all flexible (KIP-482).

- v1: directory ids (KIP-853).
- v2: pre-votes (KIP-996).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, int64, string, uint16, uuid


@message(key=52, versions="0-2", flexible="0+")
class VoteRequest:
    """Sent between controllers of Apache Kafka."""

    cluster_id: string | None = None
    voter_id: int32 = field(default=-1, versions="1+", ignorable=True)
    topics: list[RequestTopicData] = []


@struct
class RequestTopicData:
    topic_name: string = ""
    partitions: list[RequestPartitionData] = []


@struct
class RequestPartitionData:
    partition_index: int32 = 0
    replica_epoch: int32 = 0
    replica_id: int32 = 0
    replica_directory_id: uuid = field(default=NIL_UUID, versions="1+", ignorable=True)
    voter_directory_id: uuid = field(default=NIL_UUID, versions="1+", ignorable=True)
    last_offset_epoch: int32 = 0
    last_offset: int64 = 0
    pre_vote: bool = field(default=False, versions="2+")


@message(key=52, versions="0-2", flexible="0+")
class VoteResponse:
    """Whether the vote is granted."""

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
    vote_granted: bool = False
