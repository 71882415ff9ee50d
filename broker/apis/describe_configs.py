"""DescribeConfigs: returns settings, their values and the values' sources (KIP-133, KIP-226, KIP-569).

Versions 1 to 4.
"""

from minikafka.broker.apis.repeats import Repeats
from minikafka.broker.apis.services import SetupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.controller.settings.describe_configs import ConfigDescriptions
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
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
        results.append(repeats.check(described.named(resource), described.of(resource)))
    return DescribeConfigsResponse(results=results)
