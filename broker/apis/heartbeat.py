"""Heartbeat: keeps a member of a classic group alive, and notifies it of a rebalance.

Versions 0 to 4: static members from 3 (KIP-345).
"""

from minikafka.broker.apis.authorization import check_group
from minikafka.broker.apis.services import GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

REQUEST = HeartbeatRequest
VERSIONS = "0-4"


async def handle(request: HeartbeatRequest, context: RequestContext[GroupService]) -> HeartbeatResponse:
    """Keep the member alive; the error REBALANCE_IN_PROGRESS in the response makes the member join again.

    Raises:
        GroupAuthorizationFailedError: The client may not read the group.
    """
    check_group(context, AclOperation.READ, request.group_id)
    return await context.services.groups.heartbeat(request)
