"""DescribeConfigs: returns settings, their values and the values' sources (KIP-133, KIP-226, KIP-569).

Versions 1 to 4.
"""

from minikafka.broker.apis.repeats import Repeats
from minikafka.broker.apis.services import SetupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.controller.security.access import Access
from minikafka.controller.settings.describe_configs import ConfigDescriptions
from minikafka.controller.settings.effective_settings import ResourceType
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from minikafka.storage.steps import Pauses

REQUEST = DescribeConfigsRequest
VERSIONS = "1-4"

EVERY = 16
"""The number of resources that are described between two pauses: a topic takes up to 0.3 ms, the broker 2 ms once."""


async def handle(request: DescribeConfigsRequest, context: RequestContext[SetupService]) -> DescribeConfigsResponse:
    """Describe the settings of topics, groups and this broker; other brokers describe their own settings.

    Duplicates are included, see `Repeats`.
    """
    setup = context.services.setup
    described = ConfigDescriptions(request, setup.effective, setup.log_levels)
    repeats, pause = Repeats(lambda result: DescribeConfigsResponse(results=[result]), context.version), Pauses(EVERY)
    results: list[DescribeConfigsResult] = []
    for resource in request.resources:
        await pause()
        refused = _refusal(resource, context.access) if described.unexpected is None else None
        results.append(repeats.check(described.named(resource), refused or described.of(resource)))
    return DescribeConfigsResponse(results=results)


def _refusal(resource: DescribeConfigsResource, access: Access) -> DescribeConfigsResult | None:
    """Return the result for a resource whose configs the client may not describe, or None if it may."""
    kind, name, error = AclResourceType.CLUSTER, CLUSTER_NAME, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if resource.resource_type == ResourceType.TOPIC:
        kind, name, error = AclResourceType.TOPIC, resource.resource_name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif resource.resource_type == ResourceType.GROUP:
        kind, name, error = AclResourceType.GROUP, resource.resource_name, ErrorCode.GROUP_AUTHORIZATION_FAILED
    if access.allows(AclOperation.DESCRIBE_CONFIGS, kind, name):
        return None
    return DescribeConfigsResult(
        error_code=error,
        error_message=f"{kind.name.capitalize()} authorization failed.",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
