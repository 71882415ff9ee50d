"""ConsumerGroupDescribe: describes consumer groups with their members and assignments (KIP-848).

Versions 0 and 1: version 1 has the protocol of each member.
"""

from typing import Protocol

from minikafka.broker.apis.authorization import GROUP_OPERATIONS, AllowedTopics
from minikafka.broker.apis.consumer_group_heartbeat import is_enabled
from minikafka.broker.apis.repeats import Repeats
from minikafka.broker.apis.services import ClusterView, GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from minikafka.storage.steps import Pauses

REQUEST = ConsumerGroupDescribeRequest
VERSIONS = "0-1"


class ConsumerGroupServices(ClusterView, GroupService, Protocol):
    """The parts of the node that the handler uses."""


async def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext[ConsumerGroupServices]
) -> ConsumerGroupDescribeResponse:
    """Describe the groups in the order of the request, duplicates included; see `Repeats`."""
    response = ConsumerGroupDescribeResponse()
    repeats = Repeats(lambda group: ConsumerGroupDescribeResponse(groups=[group]), context.version)
    enabled, access = is_enabled(context), context.access
    visible, pause = AllowedTopics(context, AclOperation.DESCRIBE), Pauses()
    for group_id in request.group_ids:
        await pause(group_id)
        if not enabled:
            described = DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
        elif not access.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id):
            described = DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        else:
            described = await context.services.groups.describe_consumer_group(group_id)
        topics = _assigned_topics(described)
        await visible.ask(topics)
        if any(name not in visible for name in topics):
            described = _hidden(group_id)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = access.operations(
                GROUP_OPERATIONS, AclResourceType.GROUP, group_id
            )
        response.groups.append(repeats.check(group_id, described))
    return response


def _assigned_topics(group: DescribedGroup) -> dict[str, None]:
    """Return the topics of the members' current and target assignments."""
    assignments = [one for member in group.members for one in (member.assignment, member.target_assignment)]
    return {topic.topic_name: None for assignment in assignments for topic in assignment.topic_partitions}


def _hidden(group_id: str) -> DescribedGroup:
    """Return the answer for a group whose members have a topic that the client may not describe."""
    return DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group has described topic(s) that the client is not authorized to describe.",
    )
