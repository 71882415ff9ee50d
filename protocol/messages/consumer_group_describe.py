"""ConsumerGroupDescribe, API key 69: the state, members and assignments of consumer groups (KIP-848).

Versions 0-1, flexible from the start.

- v1: which protocol a member uses.
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int8, int16, int32, string, uuid


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    """Group ids."""

    group_ids: list[string] = []
    include_authorized_operations: bool = False


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    """A result for each group."""

    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = []


@struct
class DescribedGroup:
    error_code: int16 = 0
    error_message: string | None = None
    group_id: string = ""
    group_state: string = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    assignor_name: string = ""
    members: list[Member] = []
    authorized_operations: int32 = -2147483648


@struct
class Member:
    """`member_type` is 0 for the classic protocol, 1 for the consumer protocol."""

    member_id: string = ""
    instance_id: string | None = None
    rack_id: string | None = None
    member_epoch: int32 = 0
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[string] = []
    subscribed_topic_regex: string | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: int8 = field(default=-1, versions="1+", ignorable=True)


@struct
class TopicPartitions:
    topic_id: uuid
    topic_name: string = ""
    partitions: list[int32] = []


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = []
