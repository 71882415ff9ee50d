"""ListGroups: lists the groups that this node coordinates.

Versions 0 to 5: a filter by state from 4 (KIP-518), by type from 5 (KIP-848).
"""

from minikafka.broker.apis.services import GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from minikafka.storage.steps import Pauses

REQUEST = ListGroupsRequest
VERSIONS = "0-5"


async def handle(request: ListGroupsRequest, context: RequestContext[GroupService]) -> ListGroupsResponse:
    """List the groups that match the states and types of the request, and that the client may describe.

    Who may describe the cluster sees all groups.
    """
    response, access = await context.services.groups.list_groups(request), context.access
    if access.allows(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME, log_denied=False):
        return response
    pause, groups = Pauses(), response.groups
    response.groups = []
    for group in groups:
        await pause()
        if access.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id, log_denied=False):
            response.groups.append(group)
    return response
