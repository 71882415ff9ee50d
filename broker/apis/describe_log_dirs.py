"""DescribeLogDirs: describes the data directories and the partitions in them (KIP-113).

Versions 1 to 5: with the sizes of partitions and file systems (KIP-827), and cordoned directories (KIP-1066).
"""

from collections.abc import Collection
from typing import Protocol

from minikafka.broker.apis.services import PartitionStore, ReplicaService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.logs.log import Log
from minikafka.storage.steps import Pauses

REQUEST = DescribeLogDirsRequest
VERSIONS = "1-5"


class LogDirServices(PartitionStore, ReplicaService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[LogDirServices]


async def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    """Describe all log directories; a failed directory has KAFKA_STORAGE_ERROR.

    Unknown topics and partitions are left out; null requests all partitions. A client that
    may not describe the cluster gets no directories, and from version 3 on an error.
    """
    services = context.services
    if not context.access.allows(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = (
        None
        if request.topics is None
        else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    response, pause = DescribeLogDirsResponse(), Pauses()
    for directory in services.replicas.logs.directories:
        result = DescribeLogDirsResult(log_dir=directory.path)
        sizes = directory.sizes()
        if sizes is None:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            result.total_bytes, result.usable_bytes = sizes
            result.is_cordoned = directory.cordoned
            result.topics = await _topics(directory, services.partitions, wanted, pause)
        response.results.append(result)
    return response


async def _topics(
    directory: DataDirectory, partitions: Partitions, wanted: Collection[tuple[str, int]] | None, pause: Pauses
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for is_future, logs in ((False, directory.logs), (True, directory.futures)):
        for key, log in list(logs.items()):
            await pause()
            if (wanted is not None and key not in wanted) or logs.get(key) is not log:
                continue  # During the pause the log may have been deleted or replaced by its copy.
            topic = topics.setdefault(key.topic, DescribeLogDirsTopic(name=key.topic))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=key.partition,
                    partition_size=log.size_bytes,
                    offset_lag=_lag(partitions.get(*key), log, is_future=is_future),
                    is_future_key=is_future,
                )
            )
    return list(topics.values())


def _lag(partition: Partition | None, log: Log, *, is_future: bool) -> int:
    """Return how many offsets a future log is behind the log, or a log behind the high watermark; -1 if unknown."""
    if partition is None or partition.log.failure is not None:
        return -1
    end_offset = partition.log.end_offset if is_future else partition.high_watermark
    return end_offset - log.end_offset if is_future else max(end_offset - log.end_offset, 0)
