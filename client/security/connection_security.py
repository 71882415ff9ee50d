"""`ConnectionSecurity`: what each new connection of a client needs: a TLS context, a login, both or nothing."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from minikafka.client.security.sasl_login import SaslLogin
from minikafka.client.security.token_source import TokenSource


@dataclass(slots=True)
class ConnectionSecurity:
    """What each new connection of a client needs.

    Attributes:
        context: of TLS; None: plain text. A node replaces it when its stores are renewed; open connections stay.
        login: by SASL; None: none.
    """

    context: ssl.SSLContext | None = None
    login: SaslLogin | None = None

    @property
    def tokens(self) -> TokenSource | None:
        """The application's tokens that a login needs, or None."""
        return None if self.login is None else self.login.tokens


PLAINTEXT = ConnectionSecurity()
