"""DescribeConfigs: settings, their values and the sources of these (KIP-133, KIP-226, KIP-569). Versions 1 to 4."""

from minikafka.broker.apis.services import ConfigsService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.controller.settings.describe_configs import describe_configs
from minikafka.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

REQUEST = DescribeConfigsRequest
VERSIONS = "1-4"


async def handle(request: DescribeConfigsRequest, context: RequestContext[ConfigsService]) -> DescribeConfigsResponse:
    """Of topics, groups and this broker; other brokers describe their own."""
    return describe_configs(request, context.services.effective_settings, context.services.log_levels)
