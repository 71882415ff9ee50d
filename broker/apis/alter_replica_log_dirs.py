"""AlterReplicaLogDirs: moves replicas between the data directories of this broker (KIP-113). Versions 1 to 2.

Source: Kafka's `ReplicaManager.alterReplicaLogDirs`. A partition without a replica here is refused, and its directory
remembered for the case that it gets one.
"""

from minikafka.broker.apis.services import ReplicaMoveService
from minikafka.broker.connections.pauses import Pauses
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from minikafka.protocol.names import TopicPartition

REQUEST = AlterReplicaLogDirsRequest
VERSIONS = "1-2"
MOVES_AT_ONCE = 8
"""Each makes a few files."""


async def handle(
    request: AlterReplicaLogDirsRequest, context: RequestContext[ReplicaMoveService]
) -> AlterReplicaLogDirsResponse:
    """Each partition has its own error; of one that is named several times, the last directory counts."""
    paths = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    pause = Pauses(MOVES_AT_ONCE)
    for key, path in paths.items():
        error = context.services.replica_moves.request(key, path)
        topic = results.setdefault(key.topic, AlterReplicaLogDirTopicResult(topic_name=key.topic))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=key.partition, error_code=error))
        await pause()
    return AlterReplicaLogDirsResponse(results=list(results.values()))
