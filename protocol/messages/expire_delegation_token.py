"""ExpireDelegationToken, API key 40: changes the expiry of a delegation token (KIP-48).

Versions 1-2, flexible from 2 on (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message
from minikafka.protocol.types import bytes_, int16, int32, int64


@message(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """The token's HMAC; a negative period expires it immediately."""

    hmac: bytes_ = b""
    expiry_time_period_ms: int64 = 0


@message(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse:
    """The new expiry timestamp."""

    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    throttle_time_ms: int32 = 0
