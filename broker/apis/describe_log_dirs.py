"""DescribeLogDirs: the sizes of partitions (KIP-113) and file systems (KIP-827). Versions 1 to 5."""

from collections.abc import Collection
from typing import Protocol

from minikafka.broker.apis.services import LogDirectoryService, PartitionStore
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

REQUEST = DescribeLogDirsRequest
VERSIONS = "1-5"


class LogDirServices(LogDirectoryService, PartitionStore, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[LogDirServices]


async def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    """All log directories, failed ones with KAFKA_STORAGE_ERROR.

    Unknown topics and partitions are left out; null requests all.
    """
    services = context.services
    wanted = (
        None
        if request.topics is None
        else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    response = DescribeLogDirsResponse()
    for directory in services.log_directories():
        result = DescribeLogDirsResult(log_dir=directory.path)
        result.total_bytes, result.usable_bytes = directory.total_bytes, directory.usable_bytes
        if directory.failed:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            result.topics = _topics(_held(services.partitions, directory.path, wanted))
        response.results.append(result)
    return response


def _held(partitions: Partitions, path: str, wanted: Collection[tuple[str, int]] | None) -> list[Partition]:
    return [
        one
        for one in partitions
        if one.log.directory == f"{path}/{one.topic_partition}" and (wanted is None or one.topic_partition in wanted)
    ]


def _topics(partitions: list[Partition]) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in partitions:
        name, index = partition.topic_partition
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
        topic.partitions.append(
            DescribeLogDirsPartition(partition_index=index, partition_size=partition.log.size_bytes, offset_lag=0)
        )
    return list(topics.values())
