"""SaslAuthenticate, API key 36: a step of a SASL authentication.

Versions 0-2, flexible from 2 on (KIP-482).

- v1: session_lifetime_ms, after which the client must reauthenticate (KIP-368).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message
from minikafka.protocol.types import bytes_, int16, int64, string


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """The token of the client's SASL mechanism."""

    auth_bytes: bytes_ = b""


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """The token of the server's SASL mechanism."""

    error_code: int16 = 0
    error_message: string | None
    auth_bytes: bytes_ = b""
    session_lifetime_ms: int64 = field(default=0, versions="1+", ignorable=True)
