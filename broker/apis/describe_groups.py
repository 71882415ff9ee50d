"""DescribeGroups: describes classic groups with their members.

Versions 0 to 6: authorized operations from 3 (KIP-430), instance ids from 4 (KIP-345), GROUP_ID_NOT_FOUND from 6
(KIP-1043); in earlier versions an unknown group has the state Dead.
"""

from minikafka.broker.apis.repeats import Repeats
from minikafka.broker.apis.services import GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

REQUEST = DescribeGroupsRequest
VERSIONS = "0-6"

GROUP_OPERATIONS = 3400
"""The bits of all operations on a group, as in Kafka without an authorizer: read, delete, describe, describe configs
and alter configs."""


async def handle(request: DescribeGroupsRequest, context: RequestContext[GroupService]) -> DescribeGroupsResponse:
    """Describe the groups in the order of the request, duplicates included; see `Repeats`."""
    response = DescribeGroupsResponse()
    repeats = Repeats(lambda group: DescribeGroupsResponse(groups=[group]), context.version)
    for group_id in request.groups:
        described = await context.services.groups.describe(group_id, context.version)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        response.groups.append(repeats.check(group_id, described))
    return response
