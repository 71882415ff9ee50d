"""ConsumerGroupHeartbeat: the groups of KIP-848, which this node does not have. Versions 0 and 1, not advertised.

A client that asks nevertheless is told as by an Apache Kafka with
`group.coordinator.rebalance.protocols=classic`,
but first to whom the group belongs.
"""

from minikafka.broker.apis.services import GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

REQUEST = ConsumerGroupHeartbeatRequest
VERSIONS = "0-1"
ADVERTISED = False


async def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext[GroupService]
) -> ConsumerGroupHeartbeatResponse:
    """Not here, or not at all."""
    code = await context.services.groups.coordinates(request.group_id)
    return ConsumerGroupHeartbeatResponse(error_code=code or ErrorCode.UNSUPPORTED_VERSION)
