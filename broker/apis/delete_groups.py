"""DeleteGroups: deletes groups without members, with their offsets (KIP-229). Versions 0 to 2."""

from minikafka.broker.apis.services import GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

REQUEST = DeleteGroupsRequest
VERSIONS = "0-2"


async def handle(request: DeleteGroupsRequest, context: RequestContext[GroupService]) -> DeleteGroupsResponse:
    """Delete groups. The response has an error code for each group; a duplicate is answered once."""
    return DeleteGroupsResponse(results=await context.services.groups.delete(request.groups_names))
