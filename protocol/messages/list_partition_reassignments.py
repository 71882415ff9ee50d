"""ListPartitionReassignments, API key 46: lists ongoing reassignments (KIP-455).

Version 0, flexible (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import int16, int32, string


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """Partitions; null selects all."""

    timeout_ms: int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@struct
class ListPartitionReassignmentsTopics:
    name: string = ""
    partition_indexes: list[int32] = []


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """The current replicas, those being added and those being removed."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None
    topics: list[OngoingTopicReassignment] = []


@struct
class OngoingTopicReassignment:
    name: string = ""
    partitions: list[OngoingPartitionReassignment] = []


@struct
class OngoingPartitionReassignment:
    partition_index: int32 = 0
    replicas: list[int32] = []
    adding_replicas: list[int32] = []
    removing_replicas: list[int32] = []
