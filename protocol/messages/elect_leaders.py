"""ElectLeaders, API key 43: triggers leader elections (KIP-183).

Versions 0-2, flexible from 2 on (KIP-482).

- v1: election_type: 0 preferred, 1 unclean (KIP-460).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int8, int16, int32, string


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """Partitions; null selects all that need an election."""

    election_type: int8 = field(default=0, versions="1+")
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: int32 = 60000


@struct
class TopicPartitions:
    topic: string = ""
    partitions: list[int32] = []


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """A result per partition."""

    throttle_time_ms: int32 = 0
    error_code: int16 = field(default=0, versions="1+")
    replica_election_results: list[ReplicaElectionResult] = []


@struct
class ReplicaElectionResult:
    topic: string = ""
    partition_result: list[PartitionResult] = []


@struct
class PartitionResult:
    partition_id: int32 = 0
    error_code: int16 = 0
    error_message: string | None
