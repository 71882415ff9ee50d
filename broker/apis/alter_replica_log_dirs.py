"""AlterReplicaLogDirs: moves replicas between the data directories of this broker (KIP-113). Versions 1 to 2.

A partition without a replica on this broker is refused; the broker remembers the directory for the case that the
partition gets a replica here later. Source: Kafka's `ReplicaManager.alterReplicaLogDirs`.
"""

from minikafka.broker.apis.authorization import check_cluster
from minikafka.broker.apis.services import ReplicaService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from minikafka.protocol.names import TopicPartition
from minikafka.storage.steps import Pauses

REQUEST = AlterReplicaLogDirsRequest
VERSIONS = "1-2"
MOVES_AT_ONCE = 8
"""Moves that are begun between two pauses; each creates a few files."""


async def handle(
    request: AlterReplicaLogDirsRequest, context: RequestContext[ReplicaService]
) -> AlterReplicaLogDirsResponse:
    """Begin the moves. Each partition has its own error; if a partition is named twice, the last directory counts.

    Raises:
        ClusterAuthorizationFailedError: The client may not alter the cluster.
    """
    check_cluster(context, AclOperation.ALTER)
    paths = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    pause = Pauses(MOVES_AT_ONCE)
    for key, path in paths.items():
        error = context.services.replicas.moves.request(key, path)
        topic = results.setdefault(key.topic, AlterReplicaLogDirTopicResult(topic_name=key.topic))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=key.partition, error_code=error))
        await pause()
    return AlterReplicaLogDirsResponse(results=list(results.values()))
