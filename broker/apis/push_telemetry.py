"""PushTelemetry: clients' metrics (KIP-714). Version 0, supported but not advertised, as in an Apache Kafka without a
metrics reporter: there is no subscription.
"""

from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

REQUEST = PushTelemetryRequest
VERSIONS = "0"
ADVERTISED = False

NIL = bytes(16)


async def handle(request: PushTelemetryRequest, context: RequestContext[object]) -> PushTelemetryResponse:
    """UNKNOWN_SUBSCRIPTION_ID, since no subscription was ever created."""
    unnamed = request.client_instance_id == NIL
    code = ErrorCode.INVALID_REQUEST if unnamed else ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    return PushTelemetryResponse(error_code=code)
