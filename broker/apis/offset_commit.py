"""OffsetCommit: stores the offsets of a group.

Versions 2 to 10: a retention time up to 4, leader epochs from 6 (KIP-320), static members from 7 (KIP-345),
GROUP_ID_NOT_FOUND from 9 (KIP-848), topic ids in place of names from 10.
"""

from typing import Protocol

from minikafka.broker.apis.authorization import AllowedTopics, check_group
from minikafka.broker.apis.merged_topics import merge_topics
from minikafka.broker.apis.services import ClusterView, GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.storage.steps import Pauses

REQUEST = OffsetCommitRequest
VERSIONS = "2-10"

VERSION_BY_ID = 10


class OffsetServices(ClusterView, GroupService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[OffsetServices]
Refused = dict[tuple[str, bytes], OffsetCommitResponseTopic]
"""The entries of topics with errors, by name and id; one entry for each topic."""


async def handle(request: OffsetCommitRequest, context: Context) -> OffsetCommitResponse:
    """Commit offsets. Unknown topics and partitions have their own errors; the other offsets are committed.

    Raises:
        GroupAuthorizationFailedError: The client may not read the group.
    """
    check_group(context, AclOperation.READ, request.group_id)
    readable = AllowedTopics(context, AclOperation.READ)
    pause, refused = Pauses(), Refused()
    known: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        await pause(topic.name)
        partitions = _known_partitions(topic, context, readable, refused)
        if partitions:
            topic.partitions = partitions
            known.append(topic)
    response = OffsetCommitResponse(topics=list(refused.values()))
    if not known:
        return response
    request.topics = known
    committed = await context.services.groups.commit(request, context.version)
    if not response.topics:
        return committed
    merge_topics(response.topics, committed.topics)
    return response


def _known_partitions(
    topic: OffsetCommitRequestTopic, context: Context, readable: AllowedTopics, refused: Refused
) -> list[OffsetCommitRequestPartition]:
    """Return the partitions that exist and that the client may read, and fill in the topic's name and id.

    A topic that the client may not read or that is unknown (even one without partitions), and unknown partitions, are
    added to `refused`.
    """
    image = context.services.image
    by_id = context.version >= VERSION_BY_ID
    known = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
    error = ErrorCode.UNKNOWN_TOPIC_ID if known is None and by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    name = known.name if known is not None else topic.name
    if name not in readable and (known is not None or not by_id):
        known, error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if known is not None:
        topic.name, topic.topic_id = known.name, known.id
    count = 0 if known is None else len(known.partitions)
    missing = [p for p in topic.partitions if not 0 <= p.partition_index < count]
    if missing or known is None:
        empty = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        refused.setdefault((topic.name, topic.topic_id), empty).partitions += [
            OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error) for p in missing
        ]
    return [p for p in topic.partitions if 0 <= p.partition_index < count]
