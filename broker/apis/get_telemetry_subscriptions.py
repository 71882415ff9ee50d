"""GetTelemetrySubscriptions: tells a client which metrics to push (KIP-714).

Version 0, advertised if `metrics.listener` is set, as in an Apache Kafka with a reporter that receives the metrics
of clients.
"""

from typing import Any

from minikafka.broker.apis.services import TelemetryService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.telemetry.subscriptions import Client
from minikafka.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from minikafka.protocol.names import uuid_text
from minikafka.protocol.records.compression import Codec

REQUEST = GetTelemetrySubscriptionsRequest
VERSIONS = "0"
ADVERTISED = False

NIL = bytes(16)
CODECS = [Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY]
"""The accepted compression types, in the order in which clients should choose."""


async def handle(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext[TelemetryService]
) -> GetTelemetrySubscriptionsResponse:
    """Return the client's subscription, and an id for a client without one. Raises ThrottlingQuotaExceededError."""
    clients = context.services.telemetry
    instance_id = request.client_instance_id if request.client_instance_id != NIL else clients.new_id()
    subscription = await clients.subscribe(instance_id, client_of(instance_id, context))
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.id,
        accepted_compression_types=[int(codec) for codec in CODECS],
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=clients.size_bytes_max,
        delta_temporality=True,
        requested_metrics=list(subscription.metrics),
    )


def client_of(instance_id: bytes, context: RequestContext[Any]) -> Client:
    """Return the attributes of the client of a request, by which subscriptions select clients."""
    connection = context.connection
    return Client(
        uuid_text(instance_id),
        context.client_id,
        connection.software_name,
        connection.software_version,
        connection.client_host,
        str(connection.client_port),
    )
