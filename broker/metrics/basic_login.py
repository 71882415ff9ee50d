"""`BasicLogin`: the user and the password that a page asks for by HTTP basic authentication. Source: RFC 7617."""

import base64
import binascii
import hmac

__all__ = ["BasicLogin"]


class BasicLogin:
    """One user and his password.

    Args:
        username: Without a colon, which ends the name in a request.
    """

    def __init__(self, username: str, password: str) -> None:
        assert ":" not in username, "settings are checked"
        self._expected = f"{username}:{password}".encode()

    def why_refused(self, authorization: str) -> str:
        """Why a request is refused; "" if it has the user and the password. The comparison takes the same time always.

        Args:
            authorization: The value of the header Authorization, one character for each byte; "" if there is none.
        """
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() != "basic":
            return "no user and password" if not authorization else "another login than by Basic"
        try:
            credentials = base64.b64decode(given.strip(), validate=True)
        except (binascii.Error, ValueError):
            return "the user and password are not in base64"
        return "" if hmac.compare_digest(credentials, self._expected) else "wrong user or password"
