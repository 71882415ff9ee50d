"""DescribeTopicPartitions, API key 75: the partitions of topics, paginated (KIP-966).

Version 0, flexible (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, string, uuid


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """Topics by name, and the cursor of the previous page."""

    topics: list[TopicRequest] = []
    response_partition_limit: int32 = 2000
    cursor: Cursor | None = None


@struct
class TopicRequest:
    name: string = ""


@struct
class Cursor:
    topic_name: string = ""
    partition_index: int32 = 0


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """Partitions with their eligible leader replicas, and the cursor of the next page."""

    throttle_time_ms: int32 = field(default=0, ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int16 = 0
    name: string | None
    topic_id: uuid = field(default=NIL_UUID, ignorable=True)
    is_internal: bool = field(default=False, ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: int32 = -0x8000_0000


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = field(default=-1, ignorable=True)
    replica_nodes: list[int32] = []
    isr_nodes: list[int32] = []
    eligible_leader_replicas: list[int32] | None = None
    last_known_elr: list[int32] | None = None
    offline_replicas: list[int32] = field(default=[], ignorable=True)
