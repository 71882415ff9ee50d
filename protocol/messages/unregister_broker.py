"""UnregisterBroker, API key 64: removes the registration of a broker (KIP-631).

Version 0, flexible (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message
from minikafka.protocol.types import int16, int32, string


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    """A broker id."""

    broker_id: int32 = 0


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    """An error."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None
