"""Answers requests about SASL as a Kafka broker without security does: they get ILLEGAL_SASL_STATE.

On a listener with SASL the authentication stands before (`broker/security/authentication.py`).
"""

from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.connections.routes import ApiHandler
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

NO_SASL = "SaslAuthenticate request received after successful authentication"
Context = RequestContext[object]


async def sasl_handshake(request: SaslHandshakeRequest, context: Context) -> SaslHandshakeResponse:
    """Refuse with ILLEGAL_SASL_STATE."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


async def sasl_authenticate(request: SaslAuthenticateRequest, context: Context) -> SaslAuthenticateResponse:
    """Refuse with ILLEGAL_SASL_STATE."""
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=NO_SASL)


HANDLERS = [
    ApiHandler(SaslHandshakeRequest, "0-1", sasl_handshake),
    ApiHandler(SaslAuthenticateRequest, "0-2", sasl_authenticate),
]
