"""ConsumerGroupHeartbeat: the groups of KIP-848, which are not supported. Versions 0 and 1, not advertised.

The response is that of an Apache Kafka with `group.coordinator.rebalance.protocols=classic`: NOT_COORDINATOR and the
like first, then UNSUPPORTED_VERSION.
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
    """NOT_COORDINATOR or UNSUPPORTED_VERSION."""
    code = await context.services.groups.coordinates(request.group_id)
    return ConsumerGroupHeartbeatResponse(error_code=code or ErrorCode.UNSUPPORTED_VERSION)
