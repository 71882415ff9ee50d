"""RenewDelegationToken, API key 39: renews a delegation token (KIP-48).

Versions 1-2, flexible from 2 on (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message
from minikafka.protocol.types import bytes_, int16, int32, int64


@message(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest:
    """The token's HMAC and the new period."""

    hmac: bytes_ = b""
    renew_period_ms: int64 = 0


@message(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse:
    """The new expiry timestamp."""

    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    throttle_time_ms: int32 = 0
