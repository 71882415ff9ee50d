"""The secrets of delegation tokens (KIP-48): HMACs of their ids with a key that all nodes have.

Who has the HMAC of a token logs in with it as the token's owner, and renews and expires the token. It is in no record
and no log line. Source: `DelegationTokenManager`.
"""

import base64
import hmac
from functools import lru_cache

from minikafka.controller.settings.static_settings import StaticSettings

__all__ = ["SECRET_KEY", "password_of", "secret_of", "token_hmac"]

SECRET_KEY = "delegation.token.secret.key"
HMACS_MAX = 16_384
"""The most HMACs that are kept, more than there may be tokens: whoever names one is compared with those of all tokens.
"""


def secret_of(static: StaticSettings) -> bytes | None:
    """The key of the HMACs; None if the node has no delegation tokens."""
    text = static.value(SECRET_KEY)
    return str(text).encode() if text else None


@lru_cache(maxsize=HMACS_MAX)
def token_hmac(secret: bytes, token_id: str) -> bytes:
    """The HMAC of a token."""
    return hmac.digest(secret, token_id.encode(), "sha512")


def password_of(secret: bytes, token_id: str) -> str:
    """The password with which the token's id logs in by SCRAM."""
    return base64.b64encode(token_hmac(secret, token_id)).decode()
