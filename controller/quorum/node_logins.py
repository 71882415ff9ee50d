"""Logins of nodes at a controller listener with SASL: before the handshake, and again before a session ends.

The node that opened the connection sends requests of Kafka's protocol in frames, and gets the responses in frames::

    {"kind": "login", "request": b"…"}       SaslHandshake or SaslAuthenticate, without its size
    {"kind": "login", "response": b"…"}      the connection is closed after one that refuses the login
    {"kind": "refused", "reason": "…"}       instead, where one of the two nodes expects no login

A session that ends is renewed on the open connection by requests of kind "login" (`peer_connection.py`), so that the
quorum does not notice. Trio: streams, and pauses until a session has to be renewed.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
import trio

from minikafka.client.connections.logins import log_in, renewal_s
from minikafka.client.connections.seams import Seams
from minikafka.client.security.sasl_login import SaslLogin
from minikafka.controller.quorum.handshake import (
    LOGIN,
    ConnectionLost,
    HandshakeRefused,
    LoginRefused,
    login_refusal,
    refusal_of,
)
from minikafka.controller.quorum.peer_connection import OnRequest, PeerConnection, Reply
from minikafka.controller.quorum.peer_frames import FrameStream, MalformedFrame, encode_frame
from minikafka.controller.quorum.strangers import STRANGERS_MIN
from minikafka.controller.security.access import Principal
from minikafka.protocol.errors import AuthenticationError, NetworkError
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

__all__ = [
    "Admitted",
    "Guest",
    "GuestRequests",
    "NodeLogins",
    "PeerSecurity",
    "receive_login",
    "renew_sessions",
    "send_login",
    "while_admitted",
]

log = structlog.get_logger("minikafka.peers")

_FRAME_SIZE_BYTES = 4
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 2
_MESSAGES_MAX = 10
"""The most requests of a login; those of SCRAM are three."""


Admitted = Callable[[], bool]
"""Whether the node at the other end of a connection may speak as one now: rights can be taken away meanwhile."""


class Guest(Protocol):
    """The login at the other end of an accepted connection.

    Attributes:
        principal: who the node is; None before it has logged in.
        is_over: whether the node has to log in before its next request.
    """

    @property
    def principal(self) -> Principal | None: ...

    @property
    def is_over(self) -> bool: ...

    async def answer(self, request: bytes) -> tuple[bytes, bool]:
        """The response to a request of the login, empty if there is none, and whether the login goes on."""
        ...


@dataclass(frozen=True, slots=True)
class NodeLogins:
    """How this node logs in at controllers.

    Attributes:
        login: the mechanism, user and password.
        seams: the clock and randomness.
        client_id: of the requests.
    """

    login: SaslLogin
    seams: Seams
    client_id: str

    async def log_in(self, ask: Callable[[bytes], Awaitable[bytes]], address: str) -> int:
        """Log in. Returns how long the session lasts, in ms; 0: for ever.

        Args:
            ask: sends a request without its size, and returns the response without its size.
            address: of the other node, for messages.

        Raises:
            LoginRefused: the other node refuses the login, or is not trusted.
            MalformedFrame: what it answers is no response.
            The errors of `ask`.
        """

        async def request(message: Any) -> Any:
            is_first = isinstance(message, SaslHandshakeRequest)
            version = _HANDSHAKE_VERSION if is_first else _AUTHENTICATE_VERSION
            frame = encode_request(message, version, 0, self.client_id)
            answer = await ask(frame[_FRAME_SIZE_BYTES:])
            response = SaslHandshakeResponse if is_first else SaslAuthenticateResponse
            try:
                return decode_response(response, version, answer)[1]
            except MalformedMessage as error:
                raise MalformedFrame(f"a response to a login that cannot be read: {error}") from None

        try:
            return await log_in(request, address, self.login, self.seams)
        except (AuthenticationError, NetworkError) as error:
            raise LoginRefused(error.message) from None


@dataclass(frozen=True, slots=True)
class PeerSecurity:
    """What connections between nodes need beside those of `Network`.

    Attributes:
        admission: returns for an accepted connection what tells whether its other end may speak as a node now; a tool
            need not be admitted. It is given the principal that has logged in, None where the listener has no SASL.
        guest: begins the login at the other end of an accepted connection; None where the listener has no SASL.
        logins: how this node logs in; None where the listeners of controllers have no SASL.
        strangers_max: the most accepted connections whose node has not logged in or shaken hands yet.
        has_tls: whether the listeners of controllers have TLS.
    """

    admission: Callable[[trio.abc.Stream, Principal | None], Admitted] = lambda stream, principal: lambda: True
    guest: Callable[[trio.abc.Stream], Guest] | None = None
    logins: NodeLogins | None = None
    strangers_max: int = STRANGERS_MIN
    has_tls: bool = False


async def send_login(stream: trio.abc.Stream, frames: FrameStream, logins: NodeLogins, address: str) -> int:
    """Log in at the node that has accepted a connection. Returns how long the session lasts, in ms; 0: for ever.

    Raises:
        HandshakeRefused: that node refuses the login (`LoginRefused`), or this node.
        MalformedFrame, ConnectionLost, OSError, trio.BrokenResourceError: it is no node, or gone.
    """

    async def ask(request: bytes) -> bytes:
        await stream.send_all(encode_frame({"kind": LOGIN, "request": request}))
        frame = await frames.next()
        if frame is None:
            raise ConnectionLost("the connection was closed during the login")
        if frame["kind"] == "refused":
            raise refusal_of(frame)
        return _bytes_of(frame, "response")

    return await logins.log_in(ask, address)


async def receive_login(
    stream: trio.abc.Stream, frames: FrameStream, guest: Guest, step: Callable[[], None] = lambda: None
) -> None:
    """Have the node that opened a connection log in. Calls `step` with each of its messages, and after each answer.

    Raises:
        HandshakeRefused: the login has failed, or the node sends something else. It has been told.
        MalformedFrame, ConnectionLost, OSError, trio.BrokenResourceError: it is no node, or gone.
    """
    for _ in range(_MESSAGES_MAX):
        frame = await frames.next()
        if frame is None:
            raise ConnectionLost("the connection was closed during the login")
        step()
        if frame["kind"] != LOGIN:
            await stream.send_all(login_refusal("this listener expects a login by SASL"))
            raise HandshakeRefused("a node sends no login, and the listener expects one by SASL")
        response, goes_on = await guest.answer(_bytes_of(frame, "request"))
        if response:
            await stream.send_all(encode_frame({"kind": LOGIN, "response": response}))
        step()
        if not goes_on:
            break
        if guest.principal is not None:
            return
    raise HandshakeRefused("the login of a node has failed")


async def renew_sessions(connection: PeerConnection, logins: NodeLogins, address: str, lifetime_ms: int) -> None:
    """Renew the session of a connection, again and again before it ends; closes the connection if that fails.

    Args:
        lifetime_ms: how long the session lasts from now on; 0: for ever.
    """

    async def ask(request: bytes) -> bytes:
        return _bytes_of(await connection.request(LOGIN, {"request": request}), "response")

    try:
        while lifetime_ms > 0:
            await trio.sleep(renewal_s(lifetime_ms, logins.seams.random))
            lifetime_ms = await logins.log_in(ask, address)
    except ConnectionLost:
        return
    except (LoginRefused, MalformedFrame) as error:
        log.warning("session of a node not renewed", node=connection.peer, reason=str(error))
        connection.close()


class GuestRequests:
    """The requests on an accepted connection whose node has logged in: answers logins, and passes on the others.

    As in Kafka a node sends one request of a login at a time, and none after one that has failed.

    Args:
        guest: the login of the node.
        on_request: handles the other requests, until the session is over.
        start_soon: starts a background task.
    """

    def __init__(
        self,
        guest: Guest,
        on_request: OnRequest,
        start_soon: Callable[..., None],
    ) -> None:
        self._guest = guest
        self._on_request = on_request
        self._start_soon = start_soon
        self._may_log_in = True

    def handle(self, peer: int, what: str, body: dict[str, Any], reply: Reply) -> None:
        """Handle a request. Raises MalformedFrame if the connection must be closed: the session is over, or a login is
        out of turn."""
        if what == LOGIN:
            if not self._may_log_in:
                raise MalformedFrame("a request of a login before the last one was answered, or after it has failed")
            self._may_log_in = False
            self._start_soon(self._log_in, _bytes_of(body, "request"), reply)
        elif self._guest.is_over:
            raise MalformedFrame("the session is over, and the node has not logged in again")
        else:
            self._on_request(peer, what, body, reply)

    async def _log_in(self, request: bytes, reply: Reply) -> None:
        response, self._may_log_in = await self._guest.answer(request)
        reply({"response": response})


def while_admitted(on_request: OnRequest, admitted: Admitted) -> OnRequest:
    """Requests of a node as long as it is admitted, as in Kafka; then MalformedFrame closes the connection."""

    def handle(peer: int, what: str, body: dict[str, Any], reply: Reply) -> None:
        if not admitted():
            raise MalformedFrame("the node is not allowed CLUSTER_ACTION any more")
        on_request(peer, what, body, reply)

    return handle


def _bytes_of(frame: Mapping[str, Any], name: str) -> bytes:
    value = frame.get(name)
    if not isinstance(value, bytes):
        raise MalformedFrame(f"a frame of a login without {name}")
    return value
