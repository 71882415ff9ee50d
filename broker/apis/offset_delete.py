"""OffsetDelete: deletes committed offsets of topics that no member subscribes to (KIP-496). Version 0."""

from typing import Protocol

from minikafka.broker.apis.authorization import AllowedTopics, check_group
from minikafka.broker.apis.merged_topics import merge_topics
from minikafka.broker.apis.services import ClusterView, GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

REQUEST = OffsetDeleteRequest
VERSIONS = "0"


class OffsetServices(ClusterView, GroupService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[OffsetServices]


async def handle(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    """Delete offsets. Unknown topics (even without partitions), unknown partitions, and topics that the client may not
    read have their own errors.

    The response has one entry for each topic, however often the request names it; none if the whole request fails.

    Raises:
        GroupAuthorizationFailedError: The client may not delete the group.
    """
    check_group(context, AclOperation.DELETE, request.group_id)
    readable = AllowedTopics(context, AclOperation.READ)
    await readable.ask(topic.name for topic in request.topics)
    missing: dict[str, OffsetDeleteResponseTopic] = {}
    known: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        refused = topic.name not in readable
        known_topic = None if refused else context.services.image.topics.get(topic.name)
        count = 0 if known_topic is None else len(known_topic.partitions)
        absent = [p.partition_index for p in topic.partitions if not 0 <= p.partition_index < count]
        topic.partitions = [p for p in topic.partitions if 0 <= p.partition_index < count]
        if absent or known_topic is None:
            missing.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name)).partitions += _missing(
                absent, ErrorCode.TOPIC_AUTHORIZATION_FAILED if refused else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        if topic.partitions:
            known.append(topic)
    request.topics = known
    response = await context.services.groups.delete_offsets(request)
    if not response.error_code:
        deleted, response.topics = response.topics, list(missing.values())
        merge_topics(response.topics, deleted)
    return response


def _missing(indexes: list[int], error: ErrorCode) -> list[OffsetDeleteResponsePartition]:
    return [OffsetDeleteResponsePartition(partition_index=index, error_code=error) for index in indexes]
