"""DeleteGroups: deletes groups without members, with their offsets (KIP-229). Versions 0 to 2."""

from minikafka.broker.apis.services import GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from minikafka.storage.steps import Pauses

REQUEST = DeleteGroupsRequest
VERSIONS = "0-2"


async def handle(request: DeleteGroupsRequest, context: RequestContext[GroupService]) -> DeleteGroupsResponse:
    """Delete groups. The response has an error code for each group; a duplicate is answered once."""
    access, pause = context.access, Pauses()
    names = dict.fromkeys(request.groups_names)
    allowed: list[str] = []
    for name in names:
        await pause(name)
        if access.allows(AclOperation.DELETE, AclResourceType.GROUP, name):
            allowed.append(name)
    for name in allowed:
        del names[name]
    response = DeleteGroupsResponse(results=await context.services.groups.delete(allowed))
    response.results += [
        DeletableGroupResult(group_id=name, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED) for name in names
    ]
    return response
