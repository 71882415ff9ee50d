"""OffsetFetch: returns the committed offsets of groups.

Versions 1 to 10: all topics from 2, leader epochs from 5 (KIP-320), require_stable from 7 (KIP-447), several groups
from 8 (KIP-709), member epochs from 9 (KIP-848), topic ids from 10.
"""

from typing import Protocol

from minikafka.broker.apis.authorization import AllowedTopics
from minikafka.broker.apis.repeats import Repeats
from minikafka.broker.apis.services import ClusterView, GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from minikafka.protocol.types import NIL_UUID
from minikafka.storage.steps import Pauses

REQUEST = OffsetFetchRequest
VERSIONS = "1-10"

VERSION_WITH_GROUP_ERROR = 2
VERSION_WITH_GROUPS = 8
VERSION_BY_ID = 10
NO_OFFSET = -1


class OffsetServices(ClusterView, GroupService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[OffsetServices]


async def handle(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    """Fetch committed offsets. Each group has its own error, duplicates included, see `Repeats`.

    Before version 8 a request has one group.
    """
    if context.version >= VERSION_WITH_GROUPS:
        repeats = Repeats(lambda group: OffsetFetchResponse(groups=[group]), context.version)
        pause, response = Pauses(), OffsetFetchResponse()
        for asked in request.groups:
            await pause(asked.group_id)
            response.groups.append(repeats.check(asked.group_id, await _fetch(asked, request, context)))
        return response
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = await _fetch(OffsetFetchRequestGroup(group_id=request.group_id, topics=topics), request, context)
    return _one_group(group, request, context.version)


async def _fetch(
    group: OffsetFetchRequestGroup, request: OffsetFetchRequest, context: Context
) -> OffsetFetchResponseGroup:
    access = context.access
    if not access.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    visible = AllowedTopics(context, AclOperation.DESCRIBE)
    refused = await _complete(group, context, visible)
    response = await context.services.groups.fetch(group, require_stable=request.require_stable)
    if context.version >= VERSION_BY_ID and group.topics is None:
        # Without names only topics that still exist can be returned.
        response.topics = [topic for topic in response.topics if topic.topic_id != NIL_UUID]
    if group.topics is None:
        await visible.ask(topic.name for topic in response.topics)
        response.topics = [topic for topic in response.topics if topic.name in visible]
    if not response.error_code:
        response.topics += refused
    return response


async def _complete(
    group: OffsetFetchRequestGroup, context: Context, visible: AllowedTopics
) -> list[OffsetFetchResponseTopics]:
    """Fill in the names and ids of topics.

    Topics with unknown ids, and those that the client may not describe, are removed, and their results are returned.
    """
    image = context.services.image
    refused: list[OffsetFetchResponseTopics] = []
    known: list[OffsetFetchRequestTopics] = []
    pause = Pauses()
    for topic in group.topics or ():
        await pause(topic.name)
        by_id = context.version >= VERSION_BY_ID
        there = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
        if by_id and there is None:
            refused.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        name = topic.name if there is None else there.name
        if name not in visible:
            refused.append(_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        topic.name, topic.topic_id = name, NIL_UUID if there is None else there.id
        known.append(topic)
    if group.topics is not None:
        group.topics = known
    return refused


def _refused(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    answered = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id)
    answered.partitions = [
        OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=NO_OFFSET,
            metadata="",
            error_code=error,
        )
        for index in topic.partition_indexes
    ]
    return answered


def _one_group(group: OffsetFetchResponseGroup, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    """Build the response before version 8. In version 1 the group's error is the error of every requested partition."""
    response = OffsetFetchResponse(error_code=group.error_code)
    response.topics = [
        OffsetFetchResponseTopic(name=topic.name, partitions=[_old(part) for part in topic.partitions])
        for topic in group.topics
    ]
    if group.error_code and version < VERSION_WITH_GROUP_ERROR:
        response.error_code = ErrorCode.NONE
        for topic in request.topics or ():
            partitions = [_failed(index, group.error_code) for index in topic.partition_indexes]
            response.topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
    return response


def _old(part: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=part.partition_index,
        committed_offset=part.committed_offset,
        committed_leader_epoch=part.committed_leader_epoch,
        metadata=part.metadata,
        error_code=part.error_code,
    )


def _failed(index: int, error_code: int) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error_code
    )
