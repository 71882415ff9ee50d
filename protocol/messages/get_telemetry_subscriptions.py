"""GetTelemetrySubscriptions, API key 71: the metrics that a client is to push (KIP-714).

Version 0, flexible (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message
from minikafka.protocol.types import NIL_UUID, int8, int16, int32, string, uuid


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    """The client instance id; nil in the first request."""

    client_instance_id: uuid = NIL_UUID


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    """Metric name prefixes, push interval and compression types."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    client_instance_id: uuid = NIL_UUID
    subscription_id: int32 = 0
    accepted_compression_types: list[int8] = []
    push_interval_ms: int32 = 0
    telemetry_max_bytes: int32 = 0
    delta_temporality: bool = False
    requested_metrics: list[string] = []
