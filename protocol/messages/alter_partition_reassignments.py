"""AlterPartitionReassignments, API key 45: starts or cancels reassignments of replicas (KIP-455).

Versions 0-1, all flexible (KIP-482).

- v1: allow_replication_factor_change (KIP-860).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int16, int32, string


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """The target replicas per partition; null cancels the reassignment."""

    timeout_ms: int32 = 60000
    allow_replication_factor_change: bool = field(default=True, versions="1+")
    topics: list[ReassignableTopic] = []


@struct
class ReassignableTopic:
    name: string = ""
    partitions: list[ReassignablePartition] = []


@struct
class ReassignablePartition:
    partition_index: int32 = 0
    replicas: list[int32] | None = None


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """A result per partition."""

    throttle_time_ms: int32 = 0
    allow_replication_factor_change: bool = field(default=True, versions="1+", ignorable=True)
    error_code: int16 = 0
    error_message: string | None
    responses: list[ReassignableTopicResponse] = []


@struct
class ReassignableTopicResponse:
    name: string = ""
    partitions: list[ReassignablePartitionResponse] = []


@struct
class ReassignablePartitionResponse:
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: string | None
