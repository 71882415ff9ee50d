"""Envelope, API key 58: a request that a broker forwards to the controller (KIP-590).

Version 0, flexible (KIP-482).
"""

from __future__ import annotations

from minikafka.protocol.message import message
from minikafka.protocol.types import bytes_, int16


@message(key=58, versions="0", flexible="0+")
class EnvelopeRequest:
    """A request with its principal."""

    request_data: bytes_ = b""
    request_principal: bytes_ | None
    client_host_address: bytes_ = b""


@message(key=58, versions="0", flexible="0+")
class EnvelopeResponse:
    """The response to the request within."""

    response_data: bytes_ | None = None
    error_code: int16 = 0
