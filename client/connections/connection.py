"""One connection to one broker: sends requests in order and matches the responses, which arrive in the same order.

The life of a request: `post` picks the version, assigns a correlation id, sends the encoded request and appends it to a
queue. The next frame received is the response to the head of that queue; it is decoded and passed to the request's
callback. `request` does the same and waits for the response. When the connection is lost, every callback gets a
NetworkError.

A request without a response (Produce with acks=0) stays in the queue while the socket does not accept its bytes. Who
limits the requests in flight so limits the bytes that wait in memory for a slow broker.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import anyio

from minikafka import __version__
from minikafka.client.connections.broker_offer import API_VERSIONS_KEY, BrokerOffer
from minikafka.client.connections.logins import Session, log_in
from minikafka.client.connections.seams import Seams, event_loop_clock, reason_of
from minikafka.client.connections.stream import Receiver, Stream
from minikafka.client.connections.tls_stream import NoHandshake, TlsStream
from minikafka.client.connections.without_login import WithoutLogin
from minikafka.client.security.connection_security import PLAINTEXT, ConnectionSecurity
from minikafka.client.security.sasl_exchange import WHETHER_A_LOGIN_IS_EXPECTED, login_expected
from minikafka.client.security.tls_errors import expects_plain_text
from minikafka.client.security.token_source import LATE
from minikafka.protocol.apis import api_of
from minikafka.protocol.errors import (
    AuthenticationError,
    KafkaError,
    NetworkError,
    UnsupportedVersionError,
    again,
    error_for,
)
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.headers import decode_response, request_parts
from minikafka.protocol.message import MalformedMessage, UnencodableMessage, decode, encode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

RESPONSE_SIZE_BYTES_MAX = 1 << 30
FIRST_RESPONSES_SIZE_BYTES_MAX = 1 << 20
"""The limit until the client is logged in: what looks larger is another protocol."""
_LENGTH_BYTES = 4
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


@dataclass(slots=True)
class Counts:
    """What a connection has sent and received; bytes include the lengths of frames."""

    responses: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


class Connection:
    """An open connection, created by `open_connection`. Attributes are read-only.

    Attributes:
        address: the broker's host and port, for messages.
        offer: the broker's API versions and features.
        session: of the login by SASL; None: there was none.
        closed: the reason why the connection is closed, or "" while it is open.
        counts: what was sent and received since the connection was opened.
        on_post: called before each request is sent; set by the owner of the connection.
    """

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self.address = f"{host}:{port}"
        self.offer = BrokerOffer(self.address)
        self.frames = FrameReader(RESPONSE_SIZE_BYTES_MAX)
        self.closed = ""
        self.on_post: Callable[[], Any] | None = None
        self.counts = Counts()
        self._client_id = client_id
        self._pending: deque[_Pending] = deque()
        self._correlation_id = 0
        self._stream: Stream | None = None
        self.session: Session | None = None

    def attach(self, stream: Stream) -> None:
        """Use `stream` to send from now on."""
        self._stream = stream

    @property
    def requests(self) -> int:
        """The number of requests sent."""
        return self._correlation_id

    @property
    def responses(self) -> int:
        """The number of responses."""
        return self.counts.responses

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for a response or, if they get none, for the socket."""
        return len(self._pending) + len(self._held)

    @property
    def _held(self) -> list[tuple[_Pending, bytes]]:
        """The requests that wait for a renewal of the session."""
        return [] if self.session is None else self.session.held

    @property
    def oldest(self) -> int:
        """The correlation id of the oldest request in flight, 0 if there is none."""
        return self._pending[0].correlation_id if self._pending else 0

    @property
    def deadline(self) -> float:
        """The earliest deadline of the requests in flight, on the event loop's clock."""
        waiting = (*self._pending, *(one for one, _ in self._held)) if self._held else self._pending
        return min((one.deadline for one in waiting), default=float("inf"))

    def version_for(self, request: Any, highest: int | None = None) -> int:
        """The newest version of a request class that both sides support, at most `highest`.

        Raises UnsupportedVersionError.
        """
        return self.offer.version_for(request, highest)

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
        response, version = self.offer.chosen(kind, highest)
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
        pending = _Pending(number, response if is_answered else None, version, deadline, on_reply)
        if self.session is not None and self.session.must_wait(message):
            self.session.held.append((pending, frame))
        else:
            self.send(pending, frame)

    def send(self, pending: _Pending, frame: bytes) -> None:
        """Send a request that `post` has encoded."""
        assert self._stream is not None
        self._pending.append(pending)
        self.counts.sent_bytes += len(frame)
        self._stream.write(frame)
        if pending.response is None and not self._stream.is_full:
            self.on_sent()

    async def request(
        self,
        message: Any,
        *,
        timeout_ms: float,
        highest: int | None = None,
        heard: OnReply = lambda reply: None,
    ) -> Any:
        """Send a request and wait for the response.

        Args:
            heard: called with the response or a KafkaError, even if the wait was cancelled before.

        Cancellation: the request is not withdrawn; its response is discarded.

        Raises NetworkError (also after `timeout_ms`), UnsupportedVersionError.
        """
        answered, replies = anyio.Event(), list[Any]()

        def on_reply(reply: Any) -> None:
            heard(reply)
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
        self.counts.responses += 1
        self.counts.received_bytes += _LENGTH_BYTES + len(frame)
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

    def on_lost(self, why: str | KafkaError) -> None:
        """Handle the end of the stream."""
        self.close(why)
        self.frames = FrameReader(RESPONSE_SIZE_BYTES_MAX)  # Who knows this connection keeps no part of a response.

    def close(self, why: str | KafkaError = "closed by the client") -> None:
        """Close the connection; every request in flight fails with a NetworkError, or with the error `why`."""
        if not self.closed:
            self.closed = str(why)
            if self._stream is not None:
                self._stream.close()
        pending, self._pending = [*self._pending, *(one for one, _ in self._held)], deque()
        self._held.clear()
        for one in pending:
            lost = NetworkError(f"the connection to {self.address} was lost: {self.closed}")
            one.on_reply(again(why) if isinstance(why, AuthenticationError) else lost)


async def open_connection(
    host: str,
    port: int,
    *,
    client_id: str,
    seams: Seams,
    task_group: Any,
    timeout_ms: float,
    security: ConnectionSecurity = PLAINTEXT,
    says_if_login_lacks: bool = False,
) -> Connection:
    """Connect, negotiate API versions, and log in.

    Args:
        says_if_login_lacks: if the broker closes a connection without a login at its first request, find out whether
            it expects one; then the request gets an IllegalSaslStateError.

    Raises NetworkError, and AuthenticationError if the broker or the client is not trusted. Cancellation closes the
    connection.
    """
    connection = Connection(host, port, client_id)
    opening = _Opening(connection, host, port, seams, task_group, timeout_ms, says_if_login_lacks)
    try:
        with anyio.fail_after(timeout_ms / 1000):
            try:
                await opening.open(security)
            except NoHandshake as error:
                await opening.explain(error)
    except (OSError, TimeoutError) as error:
        connection.close()
        is_late = security.tokens is not None and security.tokens.is_awaited
        why = reason_of(error) or f"{LATE if is_late else 'no connection'} within {timeout_ms:.0f} ms"
        raise NetworkError(f"cannot connect to {connection.address}: {why}") from error
    except BaseException:
        connection.close()
        raise
    return connection


class _Opening(NamedTuple):
    """A connection that is being opened."""

    connection: Connection
    host: str
    port: int
    seams: Seams
    task_group: Any
    timeout_ms: float
    says_if_login_lacks: bool

    async def open(self, security: ConnectionSecurity) -> None:
        """Open the connection. Raises KafkaError, OSError."""
        connection = self.connection
        connection.frames.size_bytes_max = FIRST_RESPONSES_SIZE_BYTES_MAX
        receiver: Receiver = connection
        if self.says_if_login_lacks and security.login is None:
            ask = partial(self._login_expected, security.context)
            receiver = WithoutLogin(connection, ask, self.task_group.start_soon)
        await self._attach(security.context, receiver)
        await _negotiate(connection, self.timeout_ms)
        if isinstance(receiver, WithoutLogin):
            receiver.negotiated()
        if security.login is not None:
            request = partial(connection.request, timeout_ms=self.timeout_ms)
            renew = partial(log_in, request, connection.address, security.login, self.seams)
            lifetime_ms = await renew()
            start_soon = self.task_group.start_soon
            connection.session = Session(connection, renew, start_soon, event_loop_clock(), self.seams.random)
            connection.session.begin(lifetime_ms)
        connection.frames.size_bytes_max = RESPONSE_SIZE_BYTES_MAX

    async def _attach(self, context: ssl.SSLContext | None, receiver: Receiver) -> None:
        connection = self.connection
        if context is None:
            stream = await self.seams.open_stream(self.host, self.port, receiver, self.task_group)
            connection.attach(stream)
            return
        tls = TlsStream(receiver, context, connection.address, self.host)
        stream = await self.seams.open_stream(self.host, self.port, tls, self.task_group)
        connection.attach(tls)
        await tls.shake_hands(stream)

    async def _login_expected(self, context: ssl.SSLContext | None) -> KafkaError | None:
        """Ask the listener, on a connection of its own, whether it expects a login. Raises KafkaError, OSError."""
        asking = Connection(self.host, self.port, "")
        try:
            await self._replace(connection=asking)._attach(context, asking)
            await _negotiate(asking, self.timeout_ms)
            response = await asking.request(WHETHER_A_LOGIN_IS_EXPECTED, timeout_ms=self.timeout_ms)
            return login_expected(asking.address, response, with_tls=context is not None)
        finally:
            asking.close()

    async def explain(self, error: NoHandshake) -> None:
        """Raise SslAuthenticationError if the broker speaks plain text, else the error."""
        plain = Connection(self.host, self.port, "")
        try:
            await self._replace(connection=plain).open(PLAINTEXT)
        except (KafkaError, OSError):
            raise error from None
        finally:
            plain.close()
        raise expects_plain_text(plain.address)


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
    response = await connection.request(request, timeout_ms=timeout_ms)
    if response.error_code == _UNSUPPORTED_VERSION:
        known = {one.api_key: one.max_version for one in response.api_keys}
        highest = known.get(API_VERSIONS_KEY, 0)
        response = await connection.request(request, timeout_ms=timeout_ms, highest=highest)
    if response.error_code:
        raise error_for(response.error_code, f"{connection.address} rejected ApiVersions")
    connection.offer.apply(response)
