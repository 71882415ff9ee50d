"""DescribeTopicPartitions: describes topics, in pages (KIP-966). Version 0."""

from typing import Protocol

from minikafka.broker.apis.authorization import TOPIC_OPERATIONS, AllowedTopics
from minikafka.broker.apis.cluster_answers import offline
from minikafka.broker.apis.services import ClusterView, SetupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.controller.metadata.image import Image, PartitionState, Topic
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode, InvalidRequestError, InvalidTopicError
from minikafka.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from minikafka.protocol.names import INTERNAL_TOPICS, check_topic_name
from minikafka.storage.steps import Pauses

REQUEST = DescribeTopicPartitionsRequest
VERSIONS = "0"

NO_LEADER = -1
TOPICS_AT_ONCE = 64
"""The topics between two pauses: with each come its partitions, and what the client may do."""


class TopicServices(ClusterView, SetupService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[TopicServices]


async def handle(
    request: DescribeTopicPartitionsRequest, context: Context
) -> DescribeTopicPartitionsResponse:
    """Describe topics in the order of their names, at most `response_partition_limit` partitions.

    If there are more, the cursor in the response is where the next page begins. Topics that the client may not describe
    come last, and do not count; if the request names no topics, they are left out.
    """
    image = context.services.image
    cursor = request.cursor
    names = sorted({topic.name for topic in request.topics} or image.topics)
    if cursor is not None:
        if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names):
            return _refuse(request)
        names = [name for name in names if name >= cursor.topic_name]
    limit_max = context.services.setup.config.number("max.request.partition.size.limit")
    limit = min(max(request.response_partition_limit, 1), limit_max)
    response = DescribeTopicPartitionsResponse()
    visible = AllowedTopics(context, AclOperation.DESCRIBE)
    await visible.ask(names)
    hidden = [_hidden(name) for name in names if name not in visible] if request.topics else []
    pause = Pauses(every=TOPICS_AT_ONCE)
    for name in filter(visible.__contains__, names):
        await pause(name)
        if limit == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_with_operations(_unknown(name), context))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        page = topic.partitions[first : first + limit]
        response.topics.append(_with_operations(_known(topic, first, page, image), context))
        limit -= len(page)
        if first + len(page) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(page))
            break
    response.topics += hidden
    return response


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    """Return the entry of a topic that the client may not describe, whether it exists or not."""
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


def _with_operations(
    answer: DescribeTopicPartitionsResponseTopic, context: Context
) -> DescribeTopicPartitionsResponseTopic:
    answer.topic_authorized_operations = context.access.operations(
        TOPIC_OPERATIONS, AclResourceType.TOPIC, answer.name or ""
    )
    return answer


def _refuse(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    response = DescribeTopicPartitionsResponse()
    response.topics = [
        DescribeTopicPartitionsResponseTopic(error_code=InvalidRequestError.code, name=topic.name)
        for topic in request.topics
    ]
    return response


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except InvalidTopicError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
    )


def _known(
    topic: Topic, first: int, page: list[PartitionState], image: Image
) -> DescribeTopicPartitionsResponseTopic:
    answer = DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
    )
    for index, partition in enumerate(page, first):
        answer.partitions.append(
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=partition.leader if image.is_alive(partition.leader) else NO_LEADER,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=offline(partition, image),
            )
        )
    return answer
