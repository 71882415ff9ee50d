"""The sizes that messages of an authentication may have. Anybody who can connect may send one.

They are checked before a regular expression or JSON is applied, which takes up to a microsecond for each byte.
"""

from minikafka.protocol.sasl.sasl_errors import SaslError

__all__ = ["MESSAGE_BYTES_MAX", "TOKEN_BYTES_MAX", "check_size"]

MESSAGE_BYTES_MAX = 16 << 10
"""A message of PLAIN or SCRAM, and the authorization id in one of OAUTHBEARER."""
TOKEN_BYTES_MAX = 64 << 10
"""A message of OAUTHBEARER, and so a token."""


def check_size(what: str, size_bytes: int, bytes_max: int) -> None:
    """Check that a message or a part of it is not larger than allowed.

    Args:
        what: What it is, for the error, as "the SCRAM client first message".

    Raises:
        SaslError: It is larger. The client is told that its credentials are invalid, the log why.
    """
    if size_bytes > bytes_max:
        raise SaslError(f"{what} has {size_bytes} bytes; allowed: at most {bytes_max}")
