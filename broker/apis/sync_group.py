"""SyncGroup: stores the assignments from the group's leader, and returns each member's own.

Versions 0 to 5: static members from 3 (KIP-345), the protocol's type and name, which are required, from 5 (KIP-559).
The response waits for the leader's assignments.
"""

from minikafka.broker.apis.authorization import check_group
from minikafka.broker.apis.services import GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

REQUEST = SyncGroupRequest
VERSIONS = "0-5"

VERSION_WITH_REQUIRED_PROTOCOL = 5


async def handle(request: SyncGroupRequest, context: RequestContext[GroupService]) -> SyncGroupResponse:
    """Return the member's assignment, or an error.

    Raises:
        GroupAuthorizationFailedError: The client may not read the group.
    """
    if context.version >= VERSION_WITH_REQUIRED_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    check_group(context, AclOperation.READ, request.group_id)
    return await context.services.groups.sync(request)
