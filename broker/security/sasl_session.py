"""`SaslSession`: the order of requests by which a connection authenticates, without its socket and clock.

    STARTING ──ApiVersions──► VERSIONED ──┐
        └───────────────SaslHandshake─────┴──► EXCHANGING ──tokens──► AUTHENTICATED ──► requests
                                                   ▲                      │   │
                                                   └─────SaslHandshake────┘   └──► MISLED

An authenticated client authenticates again by a handshake if its session has a lifetime (KIP-368): with the same
mechanism and as the same principal. A handshake with another mechanism is answered well, but what follows is not
(`MISLED`). What fails ends the connection; some failures are answered before. Tokens are in SaslAuthenticate after a
handshake of version 1, and bare after version 0 (KIP-152). Source: `SaslServerAuthenticator`, `KafkaChannel`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

from minikafka.broker.connections.refusals import refusal_of
from minikafka.broker.connections.request_context import Disconnect
from minikafka.broker.connections.routes import Route
from minikafka.broker.coordinator.groups.state.java_order import in_map_order
from minikafka.broker.security.keys_missing import KeysMissing
from minikafka.broker.security.mechanisms import Dialogue
from minikafka.controller.security.access import Principal
from minikafka.protocol.apis import API_VERSIONS_KEY
from minikafka.protocol.errors import ErrorCode, IllegalSaslStateError, SaslAuthenticationFailedError
from minikafka.protocol.headers import RequestHeader, parse_request_header, response_parts
from minikafka.protocol.message import ManyElements, decode
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from minikafka.protocol.sasl.oauthbearer import SchemeError
from minikafka.protocol.sasl.sasl_errors import SaslError
from minikafka.protocol.sasl.scram import ProofLengthError

__all__ = [
    "TRANSITIONS",
    "Event",
    "Failed",
    "Mechanism",
    "SaslSession",
    "SessionOver",
    "State",
]

HANDSHAKE_KEY, AUTHENTICATE_KEY = 17, 36
HANDSHAKE = HANDSHAKE_KEY.to_bytes(2, "big")
REAUTHENTICATION_INTERVAL_S = 1.0
"""A client that authenticates again earlier is refused; its session goes on."""
_ELEMENTS_MAX = 1000
"""Of a request that is refused, so many elements are repeated; with more of them the connection is just closed."""


class State(StrEnum):
    """What the client is to send next."""

    STARTING = auto()
    """ApiVersions or SaslHandshake."""
    VERSIONED = auto()
    """SaslHandshake."""
    EXCHANGING = auto()
    """The next token."""
    AUTHENTICATED = auto()
    """Requests."""
    MISLED = auto()
    """Nothing: the client wants to authenticate again by another mechanism."""
    ENDED = auto()
    """Nothing: the authentication has failed."""


class Event(StrEnum):
    """What a client sends."""

    VERSIONS = auto()
    HANDSHAKE = auto()
    TOKEN = auto()
    OTHER = auto()


STARTING, VERSIONED, EXCHANGING, AUTHENTICATED, MISLED, ENDED = State
VERSIONS, TOKEN, OTHER = Event.VERSIONS, Event.TOKEN, Event.OTHER
TRANSITIONS: dict[State, dict[Event, frozenset[State]]] = {
    STARTING: {
        VERSIONS: frozenset({STARTING, VERSIONED}),
        Event.HANDSHAKE: frozenset({EXCHANGING, ENDED}),
    },
    VERSIONED: {Event.HANDSHAKE: frozenset({EXCHANGING, ENDED})},
    EXCHANGING: {
        TOKEN: frozenset({EXCHANGING, AUTHENTICATED, ENDED}),
        VERSIONS: frozenset({ENDED}),
        Event.HANDSHAKE: frozenset({ENDED}),
        OTHER: frozenset({ENDED}),
    },
    AUTHENTICATED: {Event.HANDSHAKE: frozenset({EXCHANGING, MISLED, ENDED})},
    MISLED: {},
    ENDED: {},
}
"""The states in which an event may happen, and those that it may lead to. Another event ends the connection without an
answer; an authenticated client's requests are not events."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism that a client may choose.

    Attributes:
        session_ms_max: After how long a client has to authenticate again; 0 for never.
        begin: Begins a dialogue.
    """

    session_ms_max: int
    begin: Callable[[], Dialogue]


class Failed(Exception):
    """The authentication has failed, and the connection is to be closed.

    Attributes:
        parts: The response that the client gets before; empty if none.
    """

    def __init__(self, reason: str, parts: list[Any] | None = None) -> None:
        super().__init__(reason)
        self.parts = parts or []


class SessionOver(Disconnect):
    """The session of a client is over, and its request does not begin a new authentication (KIP-368)."""


class SaslSession:
    """The authentication of one connection.

    Args:
        mechanisms: The mechanisms of the listener, by name.
        routes: The APIs of the node, to answer requests that come out of turn.
        message_bytes_max: The largest message of an authentication.

    Attributes:
        state: What the client is to send next.
        mechanism: The name of the chosen mechanism; "" before.
        principal: The authenticated client; None before.
        lifetime_ms: How long the session lasts, since the last authentication; None without end.
        refusal: Why the client's last token was refused, if it was told so and may send another one; "" otherwise.
    """

    def __init__(
        self, mechanisms: Mapping[str, Mechanism], routes: Mapping[int, Route[Any]], message_bytes_max: int
    ) -> None:
        self.state = STARTING
        self.mechanism = ""
        self.principal: Principal | None = None
        self.lifetime_ms: int | None = None
        self.refusal = ""
        self._mechanisms = mechanisms
        self._routes = routes
        self._message_bytes_max = message_bytes_max
        self._dialogue: Dialogue | None = None
        self._bare = False
        self._ends_s = float("inf")
        self._reauthenticates_s = float("-inf")

    # -- authenticated clients -----------------------------------------------------------------------------------

    def passes(self, frame: bytearray, now_s: float) -> bool:
        """Return whether the client may send this request, and it is none of a new authentication.

        Raises:
            SessionOver: The session is over.
        """
        if self.state is not AUTHENTICATED:
            return False
        if self.lifetime_ms is None:
            return True
        if frame[:2] == HANDSHAKE and now_s - self._reauthenticates_s >= REAUTHENTICATION_INTERVAL_S:
            return False
        if self.is_over(now_s):
            raise SessionOver("the session is over, and the client has not authenticated again")
        return True

    def is_over(self, now_s: float) -> bool:
        """Whether the client has to authenticate again before its next request."""
        return now_s >= self._ends_s or self.state in (MISLED, ENDED)

    # -- authentication ------------------------------------------------------------------------------------------

    def wants_versions(self, frame: bytes) -> bool:
        """Whether the request is an ApiVersions at the right time; call `told_versions` after its response."""
        return self.state is STARTING and int.from_bytes(frame[:2], "big") == API_VERSIONS_KEY and len(frame) > 1

    @property
    def takes_bare_tokens(self) -> bool:
        """Whether the next message is a token without a request around it."""
        return self.state is EXCHANGING and self._bare

    def told_versions(self, *, succeeded: bool) -> None:
        """ApiVersions was answered; an error does not count."""
        self._go(VERSIONS, VERSIONED if succeeded else STARTING)

    def answer(self, frame: bytes, now_s: float, now_ms: int) -> list[Any]:
        """Answer a request of the authentication.

        Args:
            now_s: The time on a clock that only grows.
            now_ms: The wall clock, in milliseconds since 1970.

        Returns:
            The parts of the response.

        Raises:
            Failed: The authentication has failed.
            MalformedMessage: The request is malformed.
            KeysMissing: The request can be answered after the derivation of keys.
        """
        try:
            if len(frame) > self._message_bytes_max:
                raise Failed("a message is larger than sasl.server.max.receive.size")
            if self.takes_bare_tokens:
                return self._bare_answer(frame, now_s, now_ms)
            header, position = parse_request_header(frame)
            if header.api_key == AUTHENTICATE_KEY and self.state is EXCHANGING:
                return self._token_answer(frame, header, position, now_s, now_ms)
            if header.api_key == HANDSHAKE_KEY and self.state in (STARTING, VERSIONED, AUTHENTICATED):
                return self._handshake_answer(frame, header, position, now_s)
            raise self._out_of_turn(frame, header, position)
        except KeysMissing:
            raise
        except BaseException:
            self.state = ENDED
            raise

    def _go(self, event: Event, state: State) -> None:
        assert state in TRANSITIONS[self.state].get(event, ()), f"{event} cannot lead from {self.state} to {state}"
        self.state = state

    def _handshake_answer(self, frame: bytes, header: RequestHeader, position: int, now_s: float) -> list[Any]:
        version = self._supported(header)
        name = decode(SaslHandshakeRequest, version, frame, position).mechanism
        again = self.state is AUTHENTICATED
        self._reauthenticates_s = now_s if again else self._reauthenticates_s
        mechanism = self._mechanisms.get(name)
        response = SaslHandshakeResponse(mechanisms=in_map_order(self._mechanisms))
        if mechanism is None:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            parts = [] if again else response_parts(response, version, header.correlation_id)
            raise Failed("the client asks for a mechanism that is not enabled", parts)
        if again and name != self.mechanism:
            self._go(Event.HANDSHAKE, MISLED)
        else:
            self.mechanism = name
            self._dialogue = mechanism.begin()
            self._bare = version == 0
            self._go(Event.HANDSHAKE, EXCHANGING)
        return response_parts(response, version, header.correlation_id)

    def _token_answer(
        self, frame: bytes, header: RequestHeader, position: int, now_s: float, now_ms: int
    ) -> list[Any]:
        version = self._supported(header)
        token = bytes(decode(SaslAuthenticateRequest, version, frame, position).auth_bytes)

        def refusal(message: str) -> list[Any]:
            refused = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message
            )
            return response_parts(refused, version, header.correlation_id)

        try:
            answer = self._advance(token, now_s, now_ms)
        except SaslAuthenticationFailedError as error:
            raise Failed(str(error.__cause__ or error.message), refusal(error.message)) from None
        except (ProofLengthError, SchemeError) as error:
            raise Failed(str(error)) from None
        except SaslError as error:
            during = "authentication" if self.principal is None else "re-authentication"
            raise Failed(
                str(error),
                refusal(
                    f"Authentication failed during {during} due to invalid credentials with SASL mechanism "
                    f"{self.mechanism}"
                ),
            ) from None
        response = SaslAuthenticateResponse(error_message="", auth_bytes=answer)
        if self.state is AUTHENTICATED:
            response.session_lifetime_ms = self.lifetime_ms or 0
        return response_parts(response, version, header.correlation_id)

    def _bare_answer(self, token: bytes, now_s: float, now_ms: int) -> list[Any]:
        try:
            answer = self._advance(token, now_s, now_ms)
        except (SaslAuthenticationFailedError, SaslError) as error:
            raise Failed(str(error)) from None
        return [len(answer).to_bytes(4, "big") + answer]

    def _advance(self, token: bytes, now_s: float, now_ms: int) -> bytes:
        """Give the client's token to the dialogue, and return its answer."""
        dialogue = self._dialogue
        assert dialogue is not None, "the handshake has begun a dialogue"
        answer, self.refusal = dialogue.answer(token), dialogue.refusal
        authenticated = dialogue.authenticated
        if authenticated is None:
            self._go(TOKEN, EXCHANGING)
            return answer
        principal, before = authenticated.principal, self.principal
        if before is not None and principal != before:
            raise SaslAuthenticationFailedError(
                "Cannot change principals during re-authentication from "
                f"{before.kind}.{before.name}: {principal.kind}.{principal.name}"
            )
        ends_ms = authenticated.expires_ms
        limits = [self._mechanisms[self.mechanism].session_ms_max or None, ends_ms and max(0, ends_ms - now_ms)]
        self.lifetime_ms = min((limit for limit in limits if limit is not None), default=None)
        self._ends_s = float("inf") if self.lifetime_ms is None else now_s + self.lifetime_ms / 1000
        self.principal, self._dialogue = principal, None
        self._go(TOKEN, AUTHENTICATED)
        return answer

    def _supported(self, header: RequestHeader) -> int:
        route = self._routes[header.api_key]
        if not route.min_version <= header.api_version <= route.max_version:
            raise Failed(f"version {header.api_version} of {route.name} is not supported")
        return header.api_version

    def _out_of_turn(self, frame: bytes, header: RequestHeader, position: int) -> Failed:
        """The failure of a request at the wrong time; between handshake and token it is answered."""
        route = self._routes.get(header.api_key)
        if route is None:
            return Failed(f"API key {header.api_key} before authentication")
        reason = f"Unexpected Kafka request of type {route.name} during SASL authentication."
        if self.state is not EXCHANGING:
            return Failed(reason)
        version = self._supported(header)
        try:
            request: Any = decode(route.request, version, frame, position, _ELEMENTS_MAX)
        except ManyElements:
            return Failed(reason)
        if getattr(request, "acks", None) == 0:
            return Failed(reason)
        refused = refusal_of(request, route.response, version, IllegalSaslStateError())
        return Failed(reason, response_parts(refused, version, header.correlation_id))
