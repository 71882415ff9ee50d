"""ConsumerGroupHeartbeat: a member joins, stays in or leaves a consumer group (KIP-848).

Versions 0 and 1: version 1 has regular expressions, and members choose their own member ids.

If consumer groups are switched off, the errors are those of Kafka: the errors of a node that does not coordinate the
group (NOT_COORDINATOR and the like) come first, then UNSUPPORTED_VERSION.
"""

from typing import Protocol

from minikafka.broker.apis.authorization import AllowedTopics, check_group
from minikafka.broker.apis.services import ClusterView, GroupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.coordinator.groups.state.classic_member import Caller
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

REQUEST = ConsumerGroupHeartbeatRequest
VERSIONS = "0-1"

GROUP_VERSION = "group.version"


class ConsumerGroupServices(ClusterView, GroupService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[ConsumerGroupServices]


async def handle(request: ConsumerGroupHeartbeatRequest, context: Context) -> ConsumerGroupHeartbeatResponse:
    """Process a heartbeat; the response has the member's epoch, and its assignment if the assignment has changed.

    The error is TOPIC_AUTHORIZATION_FAILED if the client may not describe one of the topics that it subscribes to by
    name. A regular expression only finds topics that the client may describe.

    Raises:
        GroupAuthorizationFailedError: The client may not read the group.
    """
    if not is_enabled(context):
        return await _refuse(request, context)
    check_group(context, AclOperation.READ, request.group_id)
    visible = AllowedTopics(context, AclOperation.DESCRIBE)
    await visible.ask(request.subscribed_topic_names or ())
    if any(name not in visible for name in request.subscribed_topic_names or ()):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    # As Java's `InetAddress.toString` without a host name: records and descriptions contain "/127.0.0.1".
    caller = Caller(context.client_id, f"/{context.connection.client_host}", context.version, context.access)
    return await context.services.groups.consumer_heartbeat(request, caller)


async def _refuse(request: ConsumerGroupHeartbeatRequest, context: Context) -> ConsumerGroupHeartbeatResponse:
    code = await context.services.groups.coordinates(request.group_id)
    return ConsumerGroupHeartbeatResponse(error_code=code or ErrorCode.UNSUPPORTED_VERSION)


def is_enabled(context: RequestContext[ConsumerGroupServices]) -> bool:
    """Whether the cluster has the feature `group.version`, and this node supports consumer groups.

    The second condition is the setting `group.coordinator.rebalance.protocols`.
    """
    has_feature = context.services.image.features.get(GROUP_VERSION, 0) >= 1
    return has_feature and context.services.groups.supports_consumer_groups
