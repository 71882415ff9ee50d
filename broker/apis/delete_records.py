"""DeleteRecords: move a log's start (KIP-107). Versions 0 to 2."""

from minikafka.broker.context import RequestContext
from minikafka.protocol.errors import InvalidTopicError, KafkaError, PolicyViolationError
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from minikafka.protocol.names import INTERNAL_TOPICS

REQUEST = DeleteRecordsRequest
VERSIONS = "0-2"


async def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    """Each partition for itself; of one that is named twice the last counts."""
    response = DeleteRecordsResponse()
    wanted: dict[str, dict[int, int]] = {}
    for topic in (topic for topic in request.topics if topic.partitions):
        offsets = wanted.setdefault(topic.name, {})
        offsets.update((asked.partition_index, asked.offset) for asked in topic.partitions)
    for name, offsets in wanted.items():
        answers = [_delete(name, index, offset, context) for index, offset in offsets.items()]
        response.topics.append(DeleteRecordsTopicResult(name=name, partitions=answers))
    return response


def _delete(topic: str, index: int, offset: int, context: RequestContext) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1)
    try:
        if topic in INTERNAL_TOPICS:
            raise InvalidTopicError(f"Cannot delete records of internal topic {topic}")
        partition = context.node.partitions.find(topic, index)
        if partition.log.config.only_compacts:
            raise PolicyViolationError(
                f"Records of partition {partition} can not be deleted due to the configured policy"
            )
        answer.low_watermark = partition.delete_records(offset)
    except KafkaError as error:
        answer.error_code = error.code
    return answer
