"""`Authentication`: stands before the `Dispatcher` on a connection of a SASL listener, until its client is known.

Afterwards it passes requests to the dispatcher, as long as the session lasts. The principal of a connection is changed
here only. Uses trio: failures are answered late (`connection.failed.authentication.delay.ms`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import trio

from minikafka.broker.connections.exchange import FrameHandler
from minikafka.broker.connections.long_polls import Parked, Receiver
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect, LastAnswer
from minikafka.broker.connections.routes import Route
from minikafka.broker.security.authentication_record import AuthenticationRecord
from minikafka.broker.security.keys_missing import KeysMissing
from minikafka.broker.security.sasl_session import Failed, Mechanism, SaslSession, SessionOver, State
from minikafka.controller.security.access import Principal
from minikafka.storage.waits import Begun, begin, in_task

__all__ = ["Authentication", "ListenerAuthentication", "Requests"]

_AS_AUTHENTICATE = b"\x00\x24\x00\x00"
"""SaslAuthenticate version 0: what bare tokens are counted as."""


class Requests(FrameHandler, Protocol):
    """Answers the requests of authenticated clients; in a node the `Dispatcher`."""

    async def answer(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        """Answer a request, see `Dispatcher.answer`."""
        ...


@dataclass(frozen=True, slots=True)
class ListenerAuthentication:
    """What the authentications of one listener share.

    Attributes:
        requests: Answers the requests of authenticated clients, and ApiVersions.
        request_bytes_max: The largest request of an authenticated client.
        mechanisms: By name.
        routes: The APIs of the node.
        message_bytes_max: The largest request before a client is authenticated.
        failure_delay_ms: How long a failed authentication is answered later.
        clock: Seconds that only grow.
        now_ms: The wall clock, in milliseconds since 1970.
        record: Counts and logs what becomes of the authentications.
    """

    requests: Requests
    request_bytes_max: int
    mechanisms: Mapping[str, Mechanism]
    routes: Mapping[int, Route[Any]]
    message_bytes_max: int
    failure_delay_ms: int
    clock: Callable[[], float]
    now_ms: Callable[[], int]
    record: AuthenticationRecord

    def handler(self) -> FrameHandler:
        """Return the handler of a new connection."""
        return Authentication(self)


class Authentication:
    """The frame handler of one connection of a SASL listener.

    Args:
        listener: What the connections of the listener share.
    """

    def __init__(self, listener: ListenerAuthentication) -> None:
        self._listener = listener
        self._session = SaslSession(listener.mechanisms, listener.routes, listener.message_bytes_max)

    @property
    def principal(self) -> Principal | None:
        """The client, once it is authenticated; None before."""
        return self._session.principal

    @property
    def is_over(self) -> bool:
        """Whether the client has to authenticate again before its next request."""
        return self._session.is_over(self._listener.clock())

    def answer_now(
        self, frame: bytearray, connection: ConnectionInfo, receiver: Receiver | None
    ) -> Begun[Answer] | Parked:
        """Answer a request of the authentication, or pass a request on. See `FrameHandler.answer_now`."""
        session, now_s = self._session, self._listener.clock()
        try:
            passes = session.passes(frame, now_s)
        except SessionOver:
            self._listener.record.expired += 1
            raise
        if passes:
            return self._listener.requests.answer_now(frame, connection, receiver)
        message = bytes(frame)
        if session.takes_bare_tokens:
            frame[:] = _AS_AUTHENTICATE
        return begin(self._authenticate(message, connection))

    async def _authenticate(self, message: bytes, connection: ConnectionInfo) -> Answer:
        await in_task()
        session = self._session
        if session.wants_versions(message):
            answer = await self._listener.requests.answer(bytearray(message), connection)
            session.told_versions(succeeded=not _error_code(answer))
            return answer
        again, refusal = session.principal is not None, session.refusal
        if refusal:
            await self._delay()  # Who is refused a token may send another one, but not sooner than on a new connection.
        try:
            parts = await self._answered(message)
        except Failed as failure:
            if str(failure) != refusal:
                self._record_failure(str(failure), connection, again=again)
            if not refusal:
                await self._delay()
            raise _ending(failure) from None
        if session.refusal:
            self._record_failure(session.refusal, connection, again=again)
        if session.state is State.AUTHENTICATED:
            assert session.principal is not None
            connection.principal = session.principal
            connection.size_bytes_max = self._listener.request_bytes_max
            self._listener.record.success(connection, session.mechanism, again=again)
        return parts, 0

    async def _answered(self, message: bytes) -> list[Any]:
        while True:
            try:
                return self._session.answer(message, self._listener.clock(), self._listener.now_ms())
            except KeysMissing as missing:
                await missing.derive()

    def _record_failure(self, reason: str, connection: ConnectionInfo, *, again: bool) -> None:
        self._listener.record.failure(connection, self._session.mechanism, reason, again=again)

    async def _delay(self) -> None:
        await trio.sleep(self._listener.failure_delay_ms / 1000)


def _ending(failure: Failed) -> Disconnect:
    """What closes the connection of a failed authentication, after its response if there is one."""
    reason = "authentication failed"
    return LastAnswer(reason, failure.parts, is_logged=True) if failure.parts else Disconnect(reason, is_logged=True)


def _error_code(answer: Answer) -> int:
    """The error code in the response to an ApiVersions, behind the size and the correlation id."""
    return int.from_bytes(b"".join(answer[0])[8:10], "big")
