"""AlterReplicaLogDirs, API key 34: moves replicas between the log directories of a broker (KIP-113).

Versions 1-2, flexible from 2 on (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import int16, int32, string


@message(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """The partitions to move to each directory."""

    dirs: list[AlterReplicaLogDir] = []


@struct
class AlterReplicaLogDir:
    path: string = ""
    topics: list[AlterReplicaLogDirTopic] = []


@struct
class AlterReplicaLogDirTopic:
    name: string = ""
    partitions: list[int32] = []


@message(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    """An error code per partition."""

    throttle_time_ms: int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: string = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = []


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: int32 = 0
    error_code: int16 = 0
