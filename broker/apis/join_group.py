"""JoinGroup: lets a member join, or rejoin, a classic group.

Versions 0 to 9: a rebalance timeout from 1 (KIP-62), a member id is required first from 4 (KIP-394), static members
from 5 (KIP-345), the protocol's type and name from 7 (KIP-559), reasons from 8 (KIP-800), skip_assignment from 9
(KIP-814). The response comes when the rebalance ends.
"""

from minikafka.broker.apis.services import GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.coordinator.groups.state.classic_member import Caller
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

REQUEST = JoinGroupRequest
VERSIONS = "0-9"

NULL_PROTOCOL_FROM = 7


async def handle(request: JoinGroupRequest, context: RequestContext[GroupService]) -> JoinGroupResponse:
    """Let a member join; the response is the member's view of the new generation, or an error."""
    # As Java's `InetAddress.toString` without a host name: records and DescribeGroups contain "/127.0.0.1".
    caller = Caller(context.client_id, f"/{context.connection.client_host}", context.version, context.access)
    if context.access.allows(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        response = await context.services.groups.join(request, caller)
    else:
        response = JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, protocol_name=None)
    if response.protocol_name is None and context.version < NULL_PROTOCOL_FROM:
        response.protocol_name = ""
    return response
