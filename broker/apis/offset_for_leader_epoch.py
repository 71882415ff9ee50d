"""OffsetForLeaderEpoch: finds the end offset of a leader epoch (KIP-101, KIP-279, KIP-320). Versions 2 to 4."""

from minikafka.broker.apis.authorization import AllowedTopics
from minikafka.broker.apis.services import PartitionStore
from minikafka.broker.connections.large_messages import ELEMENTS_MAX_WITH_PAUSES
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from minikafka.storage.steps import Pauses

REQUEST = OffsetForLeaderEpochRequest
VERSIONS = "2-4"
ELEMENTS_MAX = ELEMENTS_MAX_WITH_PAUSES


async def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext[PartitionStore]
) -> OffsetForLeaderEpochResponse:
    """Return the largest epoch not above the requested one, and its end offset; -1 if there is none.

    A node of the cluster may ask about all topics (CLUSTER_ACTION), other clients about those that they may describe.
    """
    response, pause = OffsetForLeaderEpochResponse(), Pauses()
    access = context.access
    all_topics = access.acts_as_node
    if request.replica_id >= 0:
        context.connection.follows = all_topics
    visible = AllowedTopics(context, AclOperation.DESCRIBE)
    for topic in request.topics:
        hidden = not all_topics and topic.topic not in visible
        response.topics.append(answer := OffsetForLeaderTopicResult(topic=topic.topic))
        await pause()
        for asked in topic.partitions:
            answer.partitions.append(_hidden(asked) if hidden else _end_of_epoch(topic.topic, asked, context))
            await pause()
    return response


def _hidden(asked: OffsetForLeaderPartition) -> EpochEndOffset:
    return EpochEndOffset(partition=asked.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _end_of_epoch(
    topic: str, asked: OffsetForLeaderPartition, context: RequestContext[PartitionStore]
) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        partition = context.services.partitions.find(topic, asked.partition)
        partition.check_leader(asked.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = partition.end_of_epoch(asked.leader_epoch)
    except KafkaError as error:
        answer.error_code = error.code
    return answer
