"""`HttpServer`: a small HTTP/1.1 server for a node's own pages: GET and HEAD without a body, one request a connection.

The server runs on the event loop of the node, over the same listeners and transports as Kafka's protocol. Of a request
only its line and the header Authorization are used. A connection with TLS shakes hands first. Everything is bounded:
the size and the time of a request, the time of a response, and the number of connections. Above that number, the server
closes a connection of the address that has most of those that wait for their client, the one that has waited for
longest: a health check is answered however many connections are slow, also to a client far away. The bytes of unsent
pages are bounded as well: above the bound, the connections that read the oldest pages are closed. Uses trio: a task for
each connection, and timeouts. Sources: RFC 9112, RFC 9110.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog
import trio

from minikafka.broker.connections.listening import Listening
from minikafka.broker.connections.request_context import Disconnect
from minikafka.broker.connections.transport import Transport
from minikafka.broker.metrics.refused_scrapes import RefusedScrapes

__all__ = ["HttpServer", "Request", "Response"]

log = structlog.get_logger("minikafka.metrics")

HEAD_SIZE_BYTES_MAX = 8 << 10
REQUEST_TIMEOUT_S = 5.0
RESPONSE_TIMEOUT_S = 30.0
CONNECTIONS_MAX = 64
UNSENT_SIZE_BYTES_MAX = 32 << 20
"""The bound on the pages that are being sent, without the newest. A page that many connections read counts once."""
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
END_OF_HEAD = b"\r\n\r\n"
HEADERS = {
    401: 'WWW-Authenticate: Basic realm="minikafka", charset="UTF-8"',
    405: "Allow: GET, HEAD",
}
"""By status, a header that its responses have."""


@dataclass(slots=True, frozen=True)
class Request:
    """An HTTP request for a page.

    Attributes:
        path: The path, without its query.
        client: The address of the client.
        authorization: The value of the header Authorization, which is a secret; "" if there is none, or several.
    """

    path: str
    client: str
    authorization: str = field(default="", repr=False)


@dataclass(slots=True, frozen=True)
class Response:
    """An HTTP response.

    Attributes:
        status: The status code, one of `REASONS`.
        body: The parts of the body.
    """

    status: int
    body: list[bytes] = field(default_factory=list[bytes])
    content_type: str = "text/plain; charset=utf-8"

    @property
    def size_bytes(self) -> int:
        """The size of the body."""
        return sum(map(len, self.body))

    @classmethod
    def text(cls, status: int, text: str) -> "Response":
        """Make a response with one line of text."""
        return cls(status, [f"{text}\n".encode()])


class HttpServer:
    """Serves pages over HTTP.

    Args:
        respond: Returns the response to a request. An exception is a bug: the server logs the exception and answers
            500.
        refused: Logs the clients whose handshake of TLS fails.
        connections_max: The most open connections; for each further connection an older one is closed.
        unsent_size_bytes_max: The most bytes of older pages that clients are still reading.
    """

    def __init__(
        self,
        respond: Callable[[Request], Awaitable[Response]],
        *,
        refused: RefusedScrapes | None = None,
        connections_max: int = CONNECTIONS_MAX,
        unsent_size_bytes_max: int = UNSENT_SIZE_BYTES_MAX,
    ) -> None:
        self._respond = respond
        self._refused = refused or RefusedScrapes()
        self._connections_max = connections_max
        self._unsent_size_bytes_max = unsent_size_bytes_max
        self._unsent: dict[trio.CancelScope, Response] = {}  # the oldest first
        self._open: dict[trio.CancelScope, str] = {}  # the oldest first; the address of a client that is waited for

    async def serve(self, listening: Listening) -> None:
        """Accept and answer until cancelled; then close the listener and the connections."""
        async with trio.open_nursery() as nursery:
            try:
                while True:
                    transport = await listening.accept()
                    if transport is None:
                        continue
                    if len(self._open) >= self._connections_max:
                        self._close_one()
                        await trio.lowlevel.checkpoint()
                    scope = trio.CancelScope()
                    self._open[scope] = transport.peer_host
                    nursery.start_soon(self._serve, transport, scope)
            finally:
                listening.close()

    def _close_one(self) -> None:
        """Close a connection of the address that has most of those that wait for their client, the one that has waited
        for longest; if none waits, the oldest connection."""
        waiting = Counter(filter(None, self._open.values()))
        crowded = waiting.most_common(1)[0][0] if waiting else ""
        scope = next(scope for scope, address in self._open.items() if address == crowded)
        del self._open[scope]
        scope.cancel()

    async def _serve(self, transport: Transport, scope: trio.CancelScope) -> None:
        try:
            with scope:
                if transport.handshake is not None:
                    await transport.handshake()
                response, with_body = await self._answer(transport, scope)
                body = response.body if with_body else []
                if body:
                    self._make_room_for(response)
                    self._unsent[scope] = response
                with trio.move_on_after(RESPONSE_TIMEOUT_S):
                    await transport.send([_head(response), *body])
        except Disconnect as error:
            self._refused.add(transport.peer_host, str(error))
        except OSError as error:
            log.debug("connection lost", client=transport.peer_host, reason=str(error))
        finally:
            self._open.pop(scope, None)
            self._unsent.pop(scope, None)
            transport.close()

    def _make_room_for(self, response: Response) -> None:
        """Close connections that read the oldest pages until there is room; other readers of this page go on."""
        for scope, page in list(self._unsent.items()):
            others = {id(one): one for one in self._unsent.values() if one is not response}
            if sum(one.size_bytes for one in others.values()) <= self._unsent_size_bytes_max:
                return
            if page is not response:
                del self._unsent[scope]
                scope.cancel()

    async def _answer(self, transport: Transport, scope: trio.CancelScope) -> tuple[Response, bool]:
        """Receive a request; returns the response, and whether the response is sent with its body."""
        with trio.move_on_after(REQUEST_TIMEOUT_S) as timeout:
            head = await _receive_head(transport)
        if timeout.cancelled_caught:
            return Response.text(408, "no request arrived in time"), True
        if head is None:
            return Response.text(431, f"a request has at most {HEAD_SIZE_BYTES_MAX} bytes"), True
        line, *headers = head.split(b"\r\n")
        words = line.split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return Response.text(400, "not an HTTP/1.1 request"), True
        if words[0] not in {b"GET", b"HEAD"}:
            return Response.text(405, "only GET and HEAD"), True
        path = words[1].partition(b"?")[0].decode("ascii", errors="replace")
        request = Request(path, transport.peer_host, _authorization(headers))
        self._open.pop(scope, None)
        self._open[scope] = ""
        try:
            response = await self._respond(request)
        except Exception:
            log.exception("page failed", path=path)
            response = Response.text(500, "this page failed; the node's log has the reason")
        self._open[scope] = transport.peer_host
        return response, words[0] == b"GET"


async def _receive_head(transport: Transport) -> bytes | None:
    """Receive a request up to its empty line, or until the client stops sending; None if the request is too large."""
    buffer, size = bytearray(HEAD_SIZE_BYTES_MAX), 0
    while size < len(buffer):
        with memoryview(buffer) as target:
            received = await transport.receive_into(target[size:])
        size += received
        if not received or END_OF_HEAD in buffer[:size]:
            return bytes(buffer[:size])
    return None


def _authorization(headers: list[bytes]) -> str:
    """The value of the header Authorization; "" if there is none, or several."""
    fields = [header.partition(b":") for header in headers]
    values = [value.strip() for name, _, value in fields if name.lower() == b"authorization"]
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _head(response: Response) -> bytes:
    lines = [
        f"HTTP/1.1 {response.status} {REASONS[response.status]}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {response.size_bytes}",
        *([HEADERS[response.status]] if response.status in HEADERS else []),
        "Cache-Control: no-store",
        "Connection: close",
        "",
        "",
    ]
    return "\r\n".join(lines).encode()
