"""LeaveGroup: removes members from a classic group.

Versions 0 to 5: several members, also by instance id, from 3 (KIP-345), reasons from 5 (KIP-800).
"""

from minikafka.broker.apis.authorization import check_group
from minikafka.broker.apis.services import GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

REQUEST = LeaveGroupRequest
VERSIONS = "0-5"

VERSION_WITH_MEMBERS = 3


async def handle(request: LeaveGroupRequest, context: RequestContext[GroupService]) -> LeaveGroupResponse:
    """Remove the members, each with its own error; before version 3 the only member's error is that of the response.

    Raises:
        GroupAuthorizationFailedError: The client may not read the group.
    """
    check_group(context, AclOperation.READ, request.group_id)
    if context.version >= VERSION_WITH_MEMBERS:
        return await context.services.groups.leave(request)
    request.members = [MemberIdentity(member_id=request.member_id)]
    response = await context.services.groups.leave(request)
    errors = [response.error_code, *(member.error_code for member in response.members)]
    return LeaveGroupResponse(error_code=next((error for error in errors if error), 0))
