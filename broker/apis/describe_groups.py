"""DescribeGroups: describes classic groups with their members.

Versions 0 to 6: authorized operations from 3 (KIP-430), instance ids from 4 (KIP-345), GROUP_ID_NOT_FOUND from 6
(KIP-1043); in earlier versions an unknown group has the state Dead.
"""

from minikafka.broker.apis.authorization import GROUP_OPERATIONS
from minikafka.broker.apis.repeats import Repeats
from minikafka.broker.apis.services import GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from minikafka.storage.steps import Pauses

REQUEST = DescribeGroupsRequest
VERSIONS = "0-6"


async def handle(request: DescribeGroupsRequest, context: RequestContext[GroupService]) -> DescribeGroupsResponse:
    """Describe the groups in the order of the request, duplicates included; see `Repeats`."""
    response, access = DescribeGroupsResponse(), context.access
    repeats = Repeats(lambda group: DescribeGroupsResponse(groups=[group]), context.version)
    pause = Pauses()
    for group_id in request.groups:
        await pause(group_id)
        if not access.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id):
            response.groups.append(_hidden(group_id))
            continue
        described = await context.services.groups.describe(group_id, context.version)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = access.operations(
                GROUP_OPERATIONS, AclResourceType.GROUP, group_id
            )
        response.groups.append(repeats.check(group_id, described))
    return response


def _hidden(group_id: str) -> DescribedGroup:
    """Return the answer for a group that the client may not describe, whether it exists or not."""
    return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
