"""One connection to one broker: sends requests in order and matches the responses, which arrive in the same order.

The life of a request: `post` picks the version, assigns a correlation id, sends the encoded request and appends it to a
queue. The next frame received is the response to the head of that queue; it is decoded and passed to the request's
callback. `request` does the same and waits for the response. When the connection is lost, every callback gets a
NetworkError.

A request without a response (Produce with acks=0) stays in the queue while the socket does not accept its bytes. Who
limits the requests in flight so limits the bytes that wait in memory for a slow broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio

from minikafka import __version__
from minikafka.client.connections.seams import Seams, reason_of
from minikafka.client.connections.stream import Stream
from minikafka.protocol.apis import APIS, api_of
from minikafka.protocol.errors import NetworkError, UnsupportedVersionError, error_for
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.headers import decode_response, request_parts
from minikafka.protocol.message import MalformedMessage, UnencodableMessage, decode, encode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

RESPONSE_SIZE_BYTES_MAX = 1 << 30
_LENGTH_BYTES = 4
_API_VERSIONS_KEY = 18
_API_VERSIONS_MAX = 4
"""Apache Kafka 4.3 implements version 5 but does not advertise it."""
_METADATA_KEY, _BROKER_REGISTRATION_KEY = 3, 62
"""API keys that tell controllers from brokers: only brokers offer Metadata, only controllers BrokerRegistration."""
_UNSUPPORTED_VERSION = 35
_CORRELATION_ID_MAX = (1 << 31) - 1

OnReply = Callable[[Any], None]
"""Called once, with the response or with a KafkaError; must not raise. For a request without a response: with None,
perhaps within `post`, when the socket has accepted it."""


class _Pending:
    """A request in flight; `response` is the response's class, None if there is none."""

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
    """An open connection, created by `open_connection`. Attributes are read-only.

    Attributes:
        address: the broker's host and port, for messages.
        versions: (lowest, highest) version that the broker supports, by API key.
        features: the level of each finalized feature, such as transaction.version.
        features_epoch: increases when features change; -1: not known.
        closed: the reason why the connection is closed, or "" while it is open.
        responses, sent_bytes, received_bytes: counts since the connection was opened; bytes include frame lengths.
        on_post: called before each request is sent; set by the owner of the connection.
    """

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self.address = f"{host}:{port}"
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        self.features_epoch = -1
        self.frames = FrameReader(RESPONSE_SIZE_BYTES_MAX)
        self.closed = ""
        self.on_post: Callable[[], Any] | None = None
        self.responses = self.sent_bytes = self.received_bytes = 0
        self._client_id = client_id
        self._pending: deque[_Pending] = deque()
        self._correlation_id = 0
        self._chosen: dict[Any, tuple[Any, int]] = {}
        self._stream: Stream | None = None

    def attach(self, stream: Stream) -> None:
        """Use `stream` to send from now on."""
        self._stream = stream

    @property
    def requests(self) -> int:
        """The number of requests sent."""
        return self._correlation_id

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for a response or, if they get none, for the socket."""
        return len(self._pending)

    @property
    def oldest(self) -> int:
        """The correlation id of the oldest request in flight, 0 if there is none."""
        return self._pending[0].correlation_id if self._pending else 0

    @property
    def deadline(self) -> float:
        """The earliest deadline of the requests in flight, on the event loop's clock."""
        return min((one.deadline for one in self._pending), default=float("inf"))

    def version_for(self, request: Any, highest: int | None = None) -> int:
        """The newest version of a request class that both sides support, at most `highest`.

        Raises UnsupportedVersionError.
        """
        api = api_of(request)
        low, high = self.versions.get(api.key, (0, -1))
        newest = min(high, api.versions.last, high if highest is None else highest)
        if newest < max(low, api.versions.first):
            if api.key == _METADATA_KEY and high < 0 and _BROKER_REGISTRATION_KEY in self.versions:
                raise UnsupportedVersionError(
                    f"{self.address} is a controller's address, which is for brokers: clients need that of a broker"
                )
            offer = f"offers versions {low} to {high}" if high >= 0 else "does not offer it"
            raise UnsupportedVersionError(
                f"{api.name}: this client supports versions {api.versions.first} to {api.versions.last},"
                f" the broker at {self.address} {offer}"
            )
        return newest

    def post(
        self,
        message: Any,
        on_reply: OnReply,
        *,
        deadline: float,
        highest: int | None = None,
        is_answered: bool = True,
    ) -> None:
        """Send a request without waiting; not `is_answered` if there will be no response (Produce with acks=0).

        `deadline` is on the event loop's clock. When it passes, the connection is closed, as later responses on
        it would be late as well.

        Raises UnsupportedVersionError, also if only newer versions have what the request needs, UnencodableMessage, and
        NetworkError if the connection is closed.
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
        try:
            frame = b"".join(request_parts(message, version, number, self._client_id))
        except UnencodableMessage as error:
            if _fits_newer(message, version):
                text = f"version {version} is the newest in common with the broker at {self.address}"
                raise UnsupportedVersionError(f"{api_of(kind).name}: {text}: {error}") from error
            raise
        if self.on_post is not None:
            self.on_post()
        self._pending.append(_Pending(number, response if is_answered else None, version, deadline, on_reply))
        self.sent_bytes += len(frame)
        self._stream.write(frame)
        if not is_answered and not self._stream.is_full:
            self.on_sent()

    async def request(self, message: Any, *, timeout_ms: float, highest: int | None = None) -> Any:
        """Send a request and wait for the response.

        Cancellation: the request is not withdrawn; its response is discarded.

        Raises NetworkError (also after `timeout_ms`), UnsupportedVersionError.
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
            self.close(f"no response to {type(message).__name__} within {timeout_ms:.0f} ms")
        if not replies or isinstance(replies[0], Exception):
            raise replies[0] if replies else NetworkError(f"{self.address}: {self.closed}")
        return replies[0]

    def on_sent(self) -> None:
        """Handle that the socket has accepted all requests: those without a response are over."""
        sent = [one for one in self._pending if one.response is None]
        if sent:
            self._pending = deque(one for one in self._pending if one.response is not None)
        for one in sent:
            one.on_reply(None)

    def on_frame(self, frame: bytearray) -> None:
        """Handle a response. Raises MalformedMessage if it is malformed or not the expected one."""
        self.responses += 1
        self.received_bytes += _LENGTH_BYTES + len(frame)
        if not self._pending or self._pending[0].response is None:
            raise MalformedMessage("unexpected response: no request is in flight")
        pending = self._pending.popleft()
        try:
            number, message = self._decode(pending, frame)
            if number != pending.correlation_id:
                raise MalformedMessage(f"correlation id {number}, expected {pending.correlation_id}")
        except MalformedMessage as error:
            pending.on_reply(NetworkError(f"malformed response from {self.address}: {error}"))
            raise
        pending.on_reply(message)

    def _decode(self, pending: _Pending, frame: bytearray) -> tuple[int, Any]:
        if pending.response is ApiVersionsResponse and frame[4:6] == _UNSUPPORTED_VERSION.to_bytes(2, "big"):
            number = int.from_bytes(frame[:4], "big", signed=True)
            return number, decode(ApiVersionsResponse, 0, frame, 4)
        return decode_response(pending.response, pending.version, frame)

    def on_lost(self, why: str) -> None:
        """Handle the end of the stream."""
        self.close(why)
        self.frames = FrameReader(RESPONSE_SIZE_BYTES_MAX)  # Who knows this connection keeps no part of a response.

    def close(self, why: str = "closed by the client") -> None:
        """Close the connection; every request in flight fails with a NetworkError."""
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
    """Connect, and negotiate API versions.

    Raises NetworkError. Cancellation closes the connection.
    """
    connection = Connection(host, port, client_id)
    try:
        with anyio.fail_after(timeout_ms / 1000):
            connection.attach(await seams.open_stream(host, port, connection, task_group))
            await _negotiate(connection, timeout_ms)
    except (OSError, TimeoutError) as error:
        connection.close()
        why = reason_of(error) or f"no connection within {timeout_ms:.0f} ms"
        raise NetworkError(f"cannot connect to {connection.address}: {why}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _fits_newer(message: Any, version: int) -> bool:
    """Whether a request that cannot be encoded in a version could be in a newer one."""
    for newer in range(version + 1, api_of(type(message)).versions.last + 1):
        with suppress(UnencodableMessage):
            encode(message, newer)
            return True
    return False


def api_versions_request() -> ApiVersionsRequest:
    """An ApiVersions request that names this client (KIP-511)."""
    return ApiVersionsRequest(client_software_name="minikafka", client_software_version=__version__)


async def _negotiate(connection: Connection, timeout_ms: float) -> None:
    request = api_versions_request()
    connection.versions = {_API_VERSIONS_KEY: (0, _API_VERSIONS_MAX)}
    response = await connection.request(request, timeout_ms=timeout_ms)
    if response.error_code == _UNSUPPORTED_VERSION:
        known = {one.api_key: one.max_version for one in response.api_keys}
        highest = known.get(_API_VERSIONS_KEY, 0)
        response = await connection.request(request, timeout_ms=timeout_ms, highest=highest)
    if response.error_code:
        raise error_for(response.error_code, f"{connection.address} rejected ApiVersions")
    connection.versions = {
        one.api_key: (one.min_version, one.max_version)
        for one in response.api_keys
        if one.api_key in APIS
    }
    connection.features = {one.name: one.max_version_level for one in response.finalized_features}
    connection.features_epoch = response.finalized_features_epoch
