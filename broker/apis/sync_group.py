"""SyncGroup: bring the assignment of a generation, or fetch one's own. Versions 0 to 5: static members from 3
(KIP-345), the protocol's type and name, which must be given, from 5 (KIP-559). The answer may take until the
leader has assigned.
"""

from minikafka.broker.apis.services import GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

REQUEST = SyncGroupRequest
VERSIONS = "0-5"
WAITS = True

PROTOCOL_REQUIRED_FROM = 5


async def handle(request: SyncGroupRequest, context: RequestContext[GroupService]) -> SyncGroupResponse:
    """The member's assignment, or why not."""
    if context.version >= PROTOCOL_REQUIRED_FROM and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return await context.services.groups.sync(request)
