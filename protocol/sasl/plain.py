"""The message of SASL PLAIN (RFC 4616): authorization id, user and password, with NUL between them.

Source: Kafka's `PlainSaslServer`, whose error messages these are.
"""

from dataclasses import dataclass, field

from minikafka.protocol.errors import SaslAuthenticationFailedError
from minikafka.protocol.sasl.message_sizes import MESSAGE_BYTES_MAX, check_size
from minikafka.protocol.sasl.sasl_errors import SaslError

__all__ = ["PlainMessage", "parse_plain", "plain_message"]


@dataclass(frozen=True, slots=True)
class PlainMessage:
    """A client's message. `authorization_id` is "" unless the client wants to act as another user."""

    authorization_id: str
    username: str
    password: str = field(repr=False)


def plain_message(username: str, password: str) -> bytes:
    """The message by which a client logs in.

    Raises:
        SaslError: A name or password with NUL, which the message cannot carry.
    """
    if "\0" in username or "\0" in password:
        raise SaslError("user names and passwords of PLAIN must not contain NUL")
    return f"\0{username}\0{password}".encode()


def parse_plain(message: bytes) -> PlainMessage:
    """Read a client's message.

    Raises:
        SaslAuthenticationFailedError: It does not have three parts, or user or password is empty.
        SaslError: It is too large.
    """
    check_size("the PLAIN message", len(message), MESSAGE_BYTES_MAX)
    # Malformed UTF-8 is replaced, as Java's `new String` does: it is then a wrong name or password.
    parts = message.decode(errors="replace").split("\0", 3)
    if len(parts) != 3:
        raise SaslAuthenticationFailedError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    authorization_id, username, password = parts
    if not username:
        raise SaslAuthenticationFailedError("Authentication failed: username not specified")
    if not password:
        raise SaslAuthenticationFailedError("Authentication failed: password not specified")
    return PlainMessage(authorization_id, username, password)
