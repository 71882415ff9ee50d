"""A provider of tokens for tests: answers the client-credentials grant (RFC 6749, 4.4) by HTTP.

    with token_server(node.token) as server:
        server.url, server.granted
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

CLIENT_ID, CLIENT_SECRET = "alices-service", "service-secret"
LASTS_S = 3_600


class TokenServer(ThreadingHTTPServer):
    """Listens on a free port of the loopback address.

    Attributes:
        granted: The number of tokens so far.
    """

    daemon_threads = True

    def __init__(self, token: Callable[[], str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.token = token
        self.granted = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class _Handler(BaseHTTPRequestHandler):
    server: TokenServer

    def do_POST(self) -> None:
        body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        pair = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if self.headers["Authorization"] != f"Basic {pair}" or body.get("grant_type") != ["client_credentials"]:
            self._answer(401, {"error": "invalid_client"})
            return
        self.server.granted += 1
        token = self.server.token()
        self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": LASTS_S})

    def _answer(self, status: int, content: dict[str, object]) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 (the name of the base class)
        """Print nothing."""


@contextmanager
def token_server(token: Callable[[], str]) -> Iterator[TokenServer]:
    """A running provider, whose tokens `token` makes."""
    with TokenServer(token) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
