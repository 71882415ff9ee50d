"""The messages of SASL OAUTHBEARER (RFC 7628): a token and extensions (KIP-342).

The server answers a valid token with nothing, and another one with a JSON text, to which the client answers `FAILED`;
only then does the authentication fail. Source: Kafka's `OAuthBearerClientInitialResponse` and `OAuthBearerSaslServer`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from minikafka.protocol.sasl.message_sizes import MESSAGE_BYTES_MAX, TOKEN_BYTES_MAX, check_size
from minikafka.protocol.sasl.sasl_errors import SaslError

__all__ = [
    "FAILED",
    "INVALID_TOKEN",
    "OAuthBearerMessage",
    "SchemeError",
    "oauthbearer_message",
    "parse_oauthbearer",
    "refusal_text",
]

FAILED = b"\x01"
"""The client's answer to a refusal."""
INVALID_TOKEN = "invalid_token"
"""The status of a refusal; the other one is `insufficient_scope`."""

_KEY = r"[A-Za-z]+"
_VALUE = r"[\x21-\x7e \t\r\n]+"
_MESSAGE = re.compile(
    r"n,(?:a=(?P<authorization>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    rf"(?P<pairs>(?:{_KEY}={_VALUE}\x01)*)\x01"
)
_CREDENTIALS = re.compile(r"(?P<scheme>[a-zA-Z0-9_]+) +(?P<token>[-_~+/.a-zA-Z0-9]+)")


@dataclass(frozen=True, slots=True)
class OAuthBearerMessage:
    """A client's first message.

    Attributes:
        authorization_id: As whom the client wants to act; "" as itself.
        extensions: Further texts of the client, by name.
    """

    token: str = field(repr=False)
    authorization_id: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


class SchemeError(SaslError):
    """The credentials have another scheme than Bearer. Kafka hangs up then, since it fails itself."""


def oauthbearer_message(token: str, extensions: Mapping[str, str] | None = None) -> bytes:
    """The message by which a client logs in.

    Raises:
        SaslError: The token or an extension has characters that the message cannot carry.
    """
    if not _CREDENTIALS.fullmatch(f"Bearer {token}"):
        raise SaslError("the token is empty or has characters that no token has")
    pairs = [f"auth=Bearer {token}"]
    for name, value in (extensions or {}).items():
        check_extension(name, value)
        pairs.append(f"{name}={value}")
    return ("n,,\x01" + "".join(f"{pair}\x01" for pair in pairs) + "\x01").encode()


def check_extension(name: str, value: str) -> None:
    """Check that a message can carry an extension.

    Raises:
        SaslError: The name has other characters than letters or is `auth`, or the value is not printable ASCII.
    """
    if name == "auth" or not re.fullmatch(_KEY, name):
        raise SaslError(f"the extension {name!r} has an invalid name; allowed: ASCII letters, but not auth")
    if not re.fullmatch(_VALUE, value):
        raise SaslError(f"the extension {name} has an invalid value; allowed: printable ASCII characters")


def parse_oauthbearer(message: bytes) -> OAuthBearerMessage:
    """Read a client's first message.

    Raises:
        SaslError: It is malformed, or it or a part of it is too large.
        SchemeError: The scheme is not Bearer.
    """
    check_size("the OAUTHBEARER message", len(message), TOKEN_BYTES_MAX)
    check_size("the authorization id in the OAUTHBEARER message", message.find(b"\x01"), MESSAGE_BYTES_MAX)
    found = _MESSAGE.fullmatch(message.decode("latin-1"))
    if found is None:
        raise SaslError("malformed OAUTHBEARER client first message")
    extensions = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01")[:-1])
    credentials = _CREDENTIALS.fullmatch(extensions.pop("auth", ""))
    if credentials is None:
        raise SaslError("the OAUTHBEARER client first message has no valid auth")
    if credentials["scheme"].lower() != "bearer":
        raise SchemeError("the OAUTHBEARER client first message has another scheme than Bearer")
    authorization = (found["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
    return OAuthBearerMessage(credentials["token"], authorization, extensions)


def refusal_text(status: str, scope: str = "") -> str:
    """The JSON text by which a server refuses a token; `scope` is what the token would need."""
    return json.dumps({"status": status} | ({"scope": scope} if scope else {}), separators=(",", ":"))
