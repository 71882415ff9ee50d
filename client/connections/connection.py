"""One connection to one broker: requests go out at once and in order, responses come back in the same order.

The life of a request: `post` picks the version, numbers and encodes it, and remembers it at the end of a queue; the
frame that comes back belongs to the head of that queue, is decoded and handed to the request's callback.
`request` is the same for whoever wants to wait. When the connection is lost, every callback gets the
NetworkError.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import anyio

from minikafka.client.connections.seams import Seams
from minikafka.client.connections.stream import Stream
from minikafka.protocol.apis import APIS, api_of
from minikafka.protocol.errors import NetworkError, UnsupportedVersionError, error_for
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.message import MalformedMessage, decode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

RESPONSE_SIZE_BYTES_MAX = 1 << 30
_API_VERSIONS_KEY = 18
_API_VERSIONS_MAX = 4
"""Apache Kafka 4.3 knows version 5 but does not offer it."""
_UNSUPPORTED_VERSION = 35
_CORRELATION_ID_MAX = (1 << 31) - 1

OnReply = Callable[[Any], None]
"""Called once, with the response or with the KafkaError that came instead; must not raise."""


class _Pending:
    """A request whose response is still to come."""

    __slots__ = ("correlation_id", "deadline", "on_reply", "response", "version")

    def __init__(
        self, correlation_id: int, response: Any, version: int, deadline: float, on_reply: OnReply
    ) -> None:
        self.correlation_id = correlation_id
        self.response = response
        self.version = version
        self.deadline = deadline
        self.on_reply = on_reply


class Connection:
    """An open connection; made by `open_connection`. Attributes are to be read only.

    Attributes:
        address: the broker's host and port, for people.
        versions: (lowest, highest) version that the broker takes, by API key.
        closed: why it is closed, or "" while it is open.
    """

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self.address = f"{host}:{port}"
        self.versions: dict[int, tuple[int, int]] = {}
        self.frames = FrameReader(RESPONSE_SIZE_BYTES_MAX)
        self.closed = ""
        self._client_id = client_id
        self._pending: deque[_Pending] = deque()
        self._correlation_id = 0
        self._chosen: dict[Any, tuple[Any, int]] = {}
        self._stream: Stream | None = None

    def attach(self, stream: Stream) -> None:
        """Send by way of `stream` from now on."""
        self._stream = stream

    @property
    def in_flight(self) -> int:
        """Requests without a response so far."""
        return len(self._pending)

    @property
    def oldest(self) -> int:
        """The number of the request that waits longest, 0 where none does."""
        return self._pending[0].correlation_id if self._pending else 0

    @property
    def deadline(self) -> float:
        """When, on the event loop's clock, the first request in flight will have waited too long."""
        return min((one.deadline for one in self._pending), default=float("inf"))

    def version_for(self, request: Any, highest: int | None = None) -> int:
        """The newest version of a request class that both sides know, `highest` at most.

        Raises UnsupportedVersionError.
        """
        api = api_of(request)
        low, high = self.versions.get(api.key, (0, -1))
        newest = min(high, api.versions.last, high if highest is None else highest)
        if newest < max(low, api.versions.first):
            offer = f"offers versions {low} to {high}" if high >= 0 else "does not offer it"
            raise UnsupportedVersionError(
                f"{api.name}: this client speaks versions {api.versions.first} to {api.versions.last},"
                f" the broker at {self.address} {offer}"
            )
        return newest

    def post(
        self, message: Any, on_reply: OnReply | None, *, deadline: float, highest: int | None = None
    ) -> None:
        """Send a request without waiting; `on_reply` of None: no response will come (Produce with acks=0).

        `deadline` is on the event loop's clock; when it passes, the whole connection is given up, because
        whatever comes later would come too late as well.

        Raises UnsupportedVersionError, UnencodableMessage, and NetworkError where the connection is closed.
        """
        if self.closed or self._stream is None:
            raise NetworkError(f"the connection to {self.address} is closed: {self.closed}")
        kind = type(message)
        chosen = self._chosen.get(kind) if highest is None else None
        if chosen is None:
            chosen = (api_of(kind).response, self.version_for(kind, highest))
            if highest is None:
                self._chosen[kind] = chosen
        response, version = chosen
        self._correlation_id = number = (self._correlation_id + 1) & _CORRELATION_ID_MAX
        frame = encode_request(message, version, number, self._client_id)
        if on_reply is not None:
            self._pending.append(_Pending(number, response, version, deadline, on_reply))
        self._stream.write(frame)

    async def request(self, message: Any, *, timeout_ms: float, highest: int | None = None) -> Any:
        """Send a request and wait for the response.

        Cancellation: the request is not taken back, its response is dropped when it comes.

        Raises NetworkError (also when it takes longer than `timeout_ms`), UnsupportedVersionError.
        """
        answered, replies = anyio.Event(), list[Any]()

        def on_reply(reply: Any) -> None:
            replies.append(reply)
            answered.set()

        deadline = anyio.current_time() + timeout_ms / 1000
        self.post(message, on_reply, deadline=deadline, highest=highest)
        with anyio.move_on_at(deadline):
            await answered.wait()
        if not replies:
            self.close(f"no answer to {type(message).__name__} within {timeout_ms:.0f} ms")
        if not replies or isinstance(replies[0], Exception):
            raise replies[0] if replies else NetworkError(f"{self.address}: {self.closed}")
        return replies[0]

    def on_frame(self, frame: bytearray) -> None:
        """A response came. Raises MalformedMessage where it is none, or not the one that is due."""
        if not self._pending:
            raise MalformedMessage("a response that nobody asked for")
        pending = self._pending.popleft()
        try:
            number, message = self._decode(pending, frame)
            if number != pending.correlation_id:
                raise MalformedMessage(f"response {number} where {pending.correlation_id} was due")
        except MalformedMessage as error:
            pending.on_reply(NetworkError(f"{self.address} sent what is no Kafka response: {error}"))
            raise
        pending.on_reply(message)

    def _decode(self, pending: _Pending, frame: bytearray) -> tuple[int, Any]:
        if pending.response is ApiVersionsResponse and frame[4:6] == _UNSUPPORTED_VERSION.to_bytes(2, "big"):
            number = int.from_bytes(frame[:4], "big", signed=True)
            return number, decode(ApiVersionsResponse, 0, frame, 4)
        return decode_response(pending.response, pending.version, frame)

    def on_lost(self, why: str) -> None:
        """The stream is gone."""
        self.close(why)

    def close(self, why: str = "it was closed here") -> None:
        """Hang up; every request in flight gets a NetworkError."""
        if not self.closed:
            self.closed = why
            if self._stream is not None:
                self._stream.close()
        pending, self._pending = self._pending, deque()
        for one in pending:
            one.on_reply(NetworkError(f"the connection to {self.address} was lost: {self.closed}"))


async def open_connection(
    host: str, port: int, *, client_id: str, seams: Seams, task_group: Any, timeout_ms: float
) -> Connection:
    """Connect and ask what the broker speaks.

    Raises NetworkError. Cancellation leaves no connection behind.
    """
    connection = Connection(host, port, client_id)
    try:
        with anyio.fail_after(timeout_ms / 1000):
            connection.attach(await seams.open_stream(host, port, connection, task_group))
            await _negotiate(connection, timeout_ms)
    except (OSError, TimeoutError) as error:
        connection.close()
        why = str(error) or f"no connection within {timeout_ms:.0f} ms"
        raise NetworkError(f"cannot connect to {connection.address}: {why}") from error
    except BaseException:
        connection.close()
        raise
    return connection


async def _negotiate(connection: Connection, timeout_ms: float) -> None:
    request = ApiVersionsRequest(client_software_name="minikafka", client_software_version="0.1.0")
    connection.versions = {_API_VERSIONS_KEY: (0, _API_VERSIONS_MAX)}
    response = await connection.request(request, timeout_ms=timeout_ms)
    if response.error_code == _UNSUPPORTED_VERSION:
        known = {one.api_key: one.max_version for one in response.api_keys}
        highest = known.get(_API_VERSIONS_KEY, 0)
        response = await connection.request(request, timeout_ms=timeout_ms, highest=highest)
    if response.error_code:
        raise error_for(response.error_code, f"{connection.address} refused to say which versions it speaks")
    connection.versions = {
        one.api_key: (one.min_version, one.max_version)
        for one in response.api_keys
        if one.api_key in APIS
    }
