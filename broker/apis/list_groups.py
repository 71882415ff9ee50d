"""ListGroups: lists the groups that this node coordinates.

Versions 0 to 5: a filter by state from 4 (KIP-518), by type from 5 (KIP-848).
"""

from minikafka.broker.apis.services import GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

REQUEST = ListGroupsRequest
VERSIONS = "0-5"


async def handle(request: ListGroupsRequest, context: RequestContext[GroupService]) -> ListGroupsResponse:
    """List the groups that match the states and types of the request."""
    return await context.services.groups.list_groups(request)
