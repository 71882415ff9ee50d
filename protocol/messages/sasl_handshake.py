"""SaslHandshake, API key 17: selects the SASL mechanism of a connection.

Versions 0-1, never flexible.

- v1: tokens are sent in SaslAuthenticate instead of bare frames (KIP-152).
"""

from __future__ import annotations

from minikafka.protocol.message import message
from minikafka.protocol.types import int16, string


@message(key=17, versions="0-1", flexible="none")
class SaslHandshakeRequest:
    """The mechanism that the client requests."""

    mechanism: string = ""


@message(key=17, versions="0-1", flexible="none")
class SaslHandshakeResponse:
    """The mechanisms that the listener supports."""

    error_code: int16 = 0
    mechanisms: list[string] = []
