"""ConsumerGroupHeartbeat, API key 68: a member of a KIP-848 group joins, stays and leaves.

Versions 0-1, flexible from the start.

- v1: subscriptions by regular expression, which the coordinator resolves; member ids of the client's own making.
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int16, int32, string, uuid


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: uuid
    partitions: list[int32]


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    """What is null has not changed since the last one."""

    group_id: string
    member_id: string
    member_epoch: int32
    instance_id: string | None = None
    rack_id: string | None = None
    rebalance_timeout_ms: int32 = -1
    subscribed_topic_names: list[string] | None = None
    subscribed_topic_regex: string | None = field(default=None, versions="1+")
    server_assignor: string | None = None
    topic_partitions: list[TopicPartitions] | None = None


@struct
class Assignment:
    """What the member shall own."""

    topic_partitions: list[TopicPartitions]


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    """`assignment` is null unless it has changed."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    member_id: string | None = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Assignment | None = None
