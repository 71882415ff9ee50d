"""ConsumerGroupDescribe: describes consumer groups with their members and assignments (KIP-848).

Versions 0 and 1: version 1 has the protocol of each member.
"""

from typing import Protocol

from minikafka.broker.apis.consumer_group_heartbeat import is_enabled
from minikafka.broker.apis.describe_groups import GROUP_OPERATIONS
from minikafka.broker.apis.repeats import Repeats
from minikafka.broker.apis.services import ClusterView, GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

REQUEST = ConsumerGroupDescribeRequest
VERSIONS = "0-1"


class ConsumerGroupServices(ClusterView, GroupService, Protocol):
    """The parts of the node that the handler uses."""


async def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext[ConsumerGroupServices]
) -> ConsumerGroupDescribeResponse:
    """Describe the groups in the order of the request, duplicates included; see `Repeats`."""
    response = ConsumerGroupDescribeResponse()
    repeats = Repeats(lambda group: ConsumerGroupDescribeResponse(groups=[group]), context.version)
    enabled = is_enabled(context)
    for group_id in request.group_ids:
        if not enabled:
            described = DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
        else:
            described = await context.services.groups.describe_consumer_group(group_id)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        response.groups.append(repeats.check(group_id, described))
    return response
