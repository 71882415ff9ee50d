"""CreatePartitions, API key 37: adds partitions to topics (KIP-195).

Versions 0-3, flexible from 2 on (KIP-482).

- v3: THROTTLING_QUOTA_EXCEEDED may be returned (KIP-599).
"""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import int16, int32, string


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """The new partition count per topic and, optionally, the assignment of the new partitions."""

    topics: list[CreatePartitionsTopic] = []
    timeout_ms: int32 = 0
    validate_only: bool = False


@struct
class CreatePartitionsTopic:
    name: string = ""
    count: int32 = 0
    assignments: list[CreatePartitionsAssignment] | None


@struct
class CreatePartitionsAssignment:
    broker_ids: list[int32] = []


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """A result per topic."""

    throttle_time_ms: int32 = 0
    results: list[CreatePartitionsTopicResult] = []


@struct
class CreatePartitionsTopicResult:
    name: string = ""
    error_code: int16 = 0
    error_message: string | None = None
