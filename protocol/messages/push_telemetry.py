"""PushTelemetry, API key 72: pushes the metrics of a client (KIP-714).

Version 0, flexible (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message
from minikafka.protocol.types import NIL_UUID, bytes_, int8, int16, int32, uuid


@message(key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    """OpenTelemetry data, optionally compressed."""

    client_instance_id: uuid = NIL_UUID
    subscription_id: int32 = 0
    terminating: bool = False
    compression_type: int8 = 0
    metrics: bytes_ = b""


@message(key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    """An error code."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
