"""PushTelemetry: a client pushes its metrics (KIP-714). Version 0, advertised if `metrics.listener` is set.

See `get_telemetry_subscriptions.py`.
"""

from minikafka.broker.apis.get_telemetry_subscriptions import client_of
from minikafka.broker.apis.services import TelemetryService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

REQUEST = PushTelemetryRequest
VERSIONS = "0"
ADVERTISED = False


async def handle(request: PushTelemetryRequest, context: RequestContext[TelemetryService]) -> PushTelemetryResponse:
    """Take the metrics of a client. Raises KafkaError, see `TelemetryClients.push`."""
    await context.services.telemetry.push(request, client_of(request.client_instance_id, context))
    return PushTelemetryResponse()
