"""Metadata and assignments of classic consumer groups, inside JoinGroup and SyncGroup (protocol type "consumer").

A 16-bit version precedes each message. A reader decodes versions above its own as its newest.

- v1: owned_partitions, for cooperative rebalancing (KIP-429).
- v2: generation_id (KIP-792).
- v3: rack_id (KIP-881).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import bytes_, int32, string


@message(versions="0-3", flexible="none")
class ConsumerProtocolSubscription:
    """The topics a member subscribes to and the partitions it owns."""

    topics: list[string] = []
    user_data: bytes_ | None = None
    owned_partitions: list[SubscriptionTopicPartition] = field(default=[], versions="1+", ignorable=True)
    generation_id: int32 = field(default=-1, versions="2+", ignorable=True)
    rack_id: string | None = field(default=None, versions="3+", ignorable=True)


@struct
class SubscriptionTopicPartition:
    topic: string = field(default="", versions="1+")
    partitions: list[int32] = field(default=[], versions="1+")


@message(versions="0-3", flexible="none")
class ConsumerProtocolAssignment:
    """The partitions assigned to a member."""

    assigned_partitions: list[AssignmentTopicPartition] = []
    user_data: bytes_ | None = None


@struct
class AssignmentTopicPartition:
    topic: string = ""
    partitions: list[int32] = []
