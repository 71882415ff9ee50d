"""`ControlServer`: the verbs of a cluster for tests over HTTP, with JSON, for programs in any language.

`routing.py` has the list. An error is answered {"error": "…"}, with status 400 for arguments, 404 for what does not
exist, and 500 for a node that does not do what it shall.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import structlog

from minikafka.broker.settings.node_config import ConfigError
from minikafka.testing.control.routing import answer, whole_number
from minikafka.testing.control.verbs import BadRequest, Verbs
from minikafka.testing.host.node_thread import NodeFailed

__all__ = ["ControlServer"]

BODY_SIZE_BYTES_MAX = 1 << 20
log = structlog.get_logger("minikafka.testing")


class ControlServer(ThreadingHTTPServer):
    """Serves the verbs on one address. Who reaches it controls the cluster: bind it to the loopback address.

    Raises OSError: the address is in use.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, host: str, port: int, verbs: Verbs) -> None:
        self.verbs = verbs
        super().__init__((host, port), _Handler)

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        return f"{host!s}:{port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        try:
            status, said = 200, self._answer(method)
        except (BadRequest, ConfigError, ValueError) as error:
            status, said = 400, {"error": str(error)}
        except LookupError as error:
            status, said = 404, {"error": str(error.args[0])}
        except (NodeFailed, OSError) as error:
            status, said = 500, {"error": str(error)}
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, method: str) -> Any:
        """Do what a request asks for. Raises BadRequest, ConfigError, LookupError, NodeFailed, OSError."""
        url = urlsplit(self.path)
        given: Mapping[str, Any] = dict(parse_qsl(url.query)) if method == "GET" else self._body()
        assert isinstance(self.server, ControlServer)
        verbs = self.server.verbs
        return answer(verbs, method, url.path, given)

    def _body(self) -> Mapping[str, Any]:
        size_bytes = whole_number(self.headers.get("Content-Length") or "0")
        if size_bytes > BODY_SIZE_BYTES_MAX:
            self.close_connection = True
            raise BadRequest(f"a body of {size_bytes} bytes: there may be {BODY_SIZE_BYTES_MAX}")
        data = self.rfile.read(size_bytes)
        try:
            body = json.loads(data or b"{}")
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"the body must be JSON: {error}") from None
        if not isinstance(body, dict):
            raise BadRequest("the body must be an object of JSON")
        return body

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of `http.server`)
        log.debug("control request", client=self.client_address[0], request=str(args[0]) if args else "")
