"""DeleteRecords: moves the log start offset (KIP-107). Versions 0 to 2."""

from functools import partial

from minikafka.broker.apis.authorization import AllowedTopics
from minikafka.broker.apis.services import PartitionStore
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.request_waiters import before, deadline_in
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import (
    ErrorCode,
    InvalidTopicError,
    KafkaError,
    NotLeaderOrFollowerError,
    PolicyViolationError,
    TopicAuthorizationFailedError,
)
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from minikafka.protocol.names import INTERNAL_TOPICS
from minikafka.storage.steps import Pauses

REQUEST = DeleteRecordsRequest
VERSIONS = "0-2"

Pending = list[tuple[Partition, int, DeleteRecordsPartitionResult]]


async def handle(request: DeleteRecordsRequest, context: RequestContext[PartitionStore]) -> DeleteRecordsResponse:
    """Delete records, and wait, at most `timeout_ms`, until all live replicas have deleted them.

    Each partition has its own error; if a partition is named twice, the last offset counts.
    """
    response = DeleteRecordsResponse()
    wanted: dict[str, dict[int, int]] = {}
    for topic in (topic for topic in request.topics if topic.partitions):
        offsets = wanted.setdefault(topic.name, {})
        offsets.update((asked.partition_index, asked.offset) for asked in topic.partitions)
    pending: Pending = []
    pause, deletable = Pauses(), AllowedTopics(context, AclOperation.DELETE)
    for name, offsets in wanted.items():
        result = DeleteRecordsTopicResult(name=name)
        response.topics.append(result)
        for index, offset in offsets.items():
            await pause()
            result.partitions.append(_delete(name, index, offset, context, pending, deletable))
    deadline = deadline_in(request.timeout_ms)
    for partition, start_offset, answer in pending:
        await _settle(partition, start_offset, answer, deadline)
    return response


def _check_internal(topic: str) -> None:
    if topic in INTERNAL_TOPICS:
        raise InvalidTopicError(f"Cannot delete records of internal topic {topic}")


async def _settle(
    partition: Partition, start_offset: int, answer: DeleteRecordsPartitionResult, deadline: float
) -> None:
    try:
        if not await before(deadline, partial(partition.deleted, start_offset)):
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        answer.low_watermark = partition.low_watermark
    except KafkaError as error:
        answer.error_code = error.code


def _delete(
    topic: str,
    index: int,
    offset: int,
    context: RequestContext[PartitionStore],
    pending: Pending,
    deletable: AllowedTopics,
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1)
    try:
        if topic not in deletable:
            raise TopicAuthorizationFailedError("Topic authorization failed.")
        try:
            partition = context.services.partitions.find(topic, index)
        except NotLeaderOrFollowerError:
            _check_internal(topic)
            raise
        _check_internal(topic)
        if partition.log.config.only_compacts:
            raise PolicyViolationError(
                f"Records of partition {partition} can not be deleted due to the configured policy"
            )
        start_offset = answer.low_watermark = partition.delete_records(offset)
        if partition.low_watermark < start_offset:
            pending.append((partition, start_offset, answer))
    except KafkaError as error:
        answer.error_code = error.code
    return answer
