"""How clients in Java log in at a guarded node by each of `JAVA_WAYS`: tokens come from a file, or from a provider.

    with java_logins(node, folder) as logins:
        logins.of(TOKEN_BY_HTTP), logins.jvm_options

A JVM takes tokens only from where a property of its own allows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.guarded_nodes import MODULES, WAYS, GuardedNode
from support.token_server import CLIENT_ID, CLIENT_SECRET, TokenServer, token_server

TOKEN_BY_HTTP = "OAUTHBEARER by HTTP"
JAVA_WAYS = (*WAYS, TOKEN_BY_HTTP)
"""OAUTHBEARER itself takes the token from a file."""
ALLOWED_PROPERTY = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_HANDLER = f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"


@dataclass(frozen=True)
class JavaLogins:
    """A node, its provider of tokens, and a file with a token."""

    node: GuardedNode
    tokens: TokenServer
    token_file: Path

    @property
    def allowed_urls(self) -> str:
        """The value of `ALLOWED_PROPERTY`."""
        return f"{self.tokens.url},{self.token_file.as_uri()}"

    @property
    def jvm_options(self) -> tuple[str, ...]:
        return (f"-D{ALLOWED_PROPERTY}={self.allowed_urls}",)

    def listener_of(self, way: str) -> str:
        return self.node.listener_of(way.partition(" ")[0])

    def address_of(self, way: str) -> str:
        return self.node.address(self.listener_of(way))

    def of(self, way: str) -> dict[str, str]:
        """The settings by which alice logs in."""
        given = self.node.properties(way.partition(" ")[0])
        if not way.startswith("OAUTHBEARER"):
            return given
        given["sasl.login.callback.handler.class"] = _HANDLER
        if way == TOKEN_BY_HTTP:
            jaas = given["sasl.jaas.config"].rstrip(";")
            given["sasl.jaas.config"] = f'{jaas} clientId="{CLIENT_ID}" clientSecret="{CLIENT_SECRET}";'
            return given | {"sasl.oauthbearer.token.endpoint.url": self.tokens.url}
        self.token_file.write_text(self.node.token())
        return given | {"sasl.oauthbearer.token.endpoint.url": self.token_file.as_uri()}


@contextmanager
def java_logins(node: GuardedNode, folder: Path) -> Iterator[JavaLogins]:
    """The logins of a running node, with a running provider of tokens; the file is in the folder."""
    with token_server(node.token) as tokens:
        yield JavaLogins(node, tokens, folder / "token")
