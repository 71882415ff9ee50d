"""Carries each request through its steps: decode, handle, throttle, encode, measure.

A step is a method of `Dispatcher` that calls an object of `request_steps.py`. This is the one place where an error that
a handler raises becomes an error code (`refusals.py`). A bug in a handler, or a response that cannot be encoded, is
logged, counted and answered UNKNOWN_SERVER_ERROR. The response size is known once the response is encoded, so measuring
is the last step; `Connection` sends the response and is then muted for the throttle time.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar, overload

import structlog

from minikafka.broker.connections.large_messages import (
    AWAIT_MEMBERS,
    ELEMENTS_AT_ONCE,
    ELEMENTS_MAX_WITH_PAUSES,
    FETCH_WAITS_MS_MAX,
    LARGE_MESSAGES,
    LargeMessages,
    elements_at_once,
    free_elements,
    is_of_follower,
)
from minikafka.broker.connections.long_polls import LongPoll, LongPolls, Parked, Receiver
from minikafka.broker.connections.refusals import refusal_of
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect, RequestContext
from minikafka.broker.connections.request_steps import Quotas, RequestObserver
from minikafka.broker.connections.routes import Handler, Route
from minikafka.broker.quotas.request_meter import RequestMeter
from minikafka.controller.failures import FAILURES
from minikafka.controller.security.access import Access, Authorizer
from minikafka.protocol.apis import API_VERSIONS_KEY
from minikafka.protocol.elements import count_elements
from minikafka.protocol.errors import ErrorCode, KafkaError, UnknownServerError, without_frames
from minikafka.protocol.headers import RequestHeader, parse_request_header, response_parts
from minikafka.protocol.message import MalformedMessage, ManyElements, decode
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from minikafka.storage.waits import Begun, Rest, begin, completed, in_task, watched

log = structlog.get_logger("minikafka.request")

S = TypeVar("S")

PRODUCE, FETCH = b"\x00\x00", b"\x00\x01"
PRODUCE_KEY, FETCH_KEY = 0, 1
Shortcut = Callable[[bytearray, ConnectionInfo], list[Any] | None]
"""A function that answers a frame of a connection without the steps of the dispatcher.

It returns the parts of the response, or None if the steps have to be taken. It asks the authorizer, and must not raise.
"""


class Dispatcher(Generic[S]):
    """Answers request frames. A node has one dispatcher, which keeps no state between requests.

    Args:
        services: Handed to the handlers.
        routes: The APIs, see `routes_of`.
        clock: Seconds that only grow, for measuring.
        authorizer: Handed to the handlers, which ask it; None allows everything, as in Kafka without
            `authorizer.class.name`.
        quotas: Throttles clients; None throttles no client.
        observer: Notified of completed requests.
        large_messages: Decodes and encodes messages that take longer than a step of a task may take.
        long_polls: The waiting requests of those connections that give a receiver for their responses.
        shortcuts: Functions that answer usual requests from their bytes, by the API key in the frame.
    """

    def __init__(
        self,
        services: S,
        routes: Mapping[int, Route[S]],
        *,
        clock: Callable[[], float],
        authorizer: Authorizer | None = None,
        quotas: Quotas | None = None,
        observer: RequestObserver | None = None,
        large_messages: LargeMessages = LARGE_MESSAGES,
        long_polls: LongPolls | None = None,
        shortcuts: Mapping[bytes, Shortcut] | None = None,
    ) -> None:
        self._services = services
        self._routes = routes
        self._clock = clock
        self._authorizer = authorizer
        self._quotas = quotas
        self._observer = observer
        self._large_messages = large_messages
        self._long_polls = long_polls or LongPolls()
        self._shortcuts = shortcuts or {}

    async def answer(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        """Carry a request through all steps. Cancellation does not undo the handler's effects.

        Raises:
            MalformedMessage: The frame is no request of an API and version that this node supports.
            Disconnect: The connection must be closed without a response.
        """
        return await completed(self.answer_now(frame, connection, None))

    @overload
    def answer_now(self, frame: bytearray, connection: ConnectionInfo, receiver: None) -> Begun[Answer]: ...

    @overload
    def answer_now(
        self, frame: bytearray, connection: ConnectionInfo, receiver: Receiver | None
    ) -> Begun[Answer] | Parked: ...

    def answer_now(
        self, frame: bytearray, connection: ConnectionInfo, receiver: Receiver | None
    ) -> Begun[Answer] | Parked:
        """Carry a request through its steps as far as is possible without waiting.

        Returns:
            The response; or the rest of the steps, which may wait; or, only if `receiver` is given, a `Parked` wait
            whose response `receiver` gets.

        Raises:
            MalformedMessage, Disconnect: See `answer`.
        """
        key = bytes(frame[:2])
        is_counted = self._quotas is not None and key in self._quotas.counted
        if not is_counted and (self._observer is None or not self._observer.enabled):
            shortcut = self._shortcuts.get(key)
            if shortcut is not None and (parts := shortcut(frame, connection)) is not None:
                return parts, 0
            if self._authorizer is not None:
                receiver = None
            elif receiver is not None and key == FETCH and (joined := self._long_polls.join(frame, receiver)):
                return joined
        else:
            receiver = None
        began_s = self._clock()
        try:
            decoded = self._decode(frame, elements_at_once(len(frame), is_produce=key == PRODUCE))
        except ManyElements:
            return begin(self._answer_large(frame, connection, began_s))
        meter = self._meter(frame, decoded[1], connection, began_s) if is_counted else None
        begun = begin(self._answer_decoded(decoded, len(frame), connection, began_s, meter))
        if receiver is None or not isinstance(begun, Rest) or not isinstance(begun.wait, LongPoll):
            return begun
        begun.close()
        encode = partial(response_parts, version=decoded[2], correlation_id=0)
        return self._long_polls.park(frame, receiver, begun.wait, encode)

    def _meter(
        self, frame: bytearray, header: RequestHeader, connection: ConnectionInfo, began_s: float
    ) -> RequestMeter | None:
        """Return what counts a request for the quotas; None if the requests of its API are not counted."""
        if self._quotas is None or bytes(frame[:2]) not in self._quotas.counted:
            return None
        return self._quotas.meter(connection.principal.name, header.client_id or "", len(frame), began_s)

    async def _answer_large(self, frame: bytearray, connection: ConnectionInfo, began_s: float) -> Answer:
        await in_task()
        header, _ = parse_request_header(frame)
        elements_max = min(len(frame), self._routes[header.api_key].elements_max)
        follows = connection.follows or (
            is_of_follower(header.client_id)
            and Access(self._authorizer, connection.principal, connection.client_host).acts_as_node
        )
        async with self._large_messages.room(header.api_key, elements_max, follows=follows) as counted:
            try:
                (decoded, count), took_s = await self._large_messages.timed(
                    self._clock, self._decode_and_count, frame
                )
            except ManyElements:
                raise Disconnect("a request with too many elements in its arrays") from None
            counted(count)
            if header.api_key == FETCH_KEY:
                decoded[3].max_wait_ms = min(decoded[3].max_wait_ms, FETCH_WAITS_MS_MAX)
            size_bytes = len(frame)
            meter = self._meter(frame, decoded[1], connection, self._clock() - took_s)
            del frame
            if header.api_key in AWAIT_MEMBERS:
                connection.release_received()
            return await self._answer_decoded(decoded, size_bytes, connection, began_s, meter)

    def _decode_and_count(self, frame: bytearray) -> "tuple[Decoded[S], int]":
        decoded = self._decode(frame, ELEMENTS_MAX_WITH_PAUSES)
        return decoded, count_elements(decoded[3])

    def _answer_decoded(
        self,
        decoded: "Decoded[S]",
        size_bytes: int,
        connection: ConnectionInfo,
        began_s: float,
        meter: RequestMeter | None,
    ) -> Coroutine[Any, Any, Answer]:
        """Carry a decoded request through the remaining steps. Its frame is kept only by records in the request."""
        route, header, version, request = decoded
        context = RequestContext(self._services, version, header.client_id or "", connection, self._authorizer, meter)
        step = _Request(route, request, context, header.correlation_id, size_bytes, began_s)
        steps = self._answer_step(step)
        return steps if meter is None else watched(steps, meter.waits, meter.resumes)

    async def _answer_step(self, step: "_Request[S]") -> Answer:
        try:
            try:
                response = await step.route.handle(step.request, step.context)
            except KafkaError as error:
                response = await self._refused(step, error)
            return await self._complete(step, response)
        except (Disconnect, MalformedMessage):
            raise
        except Exception as error:  # noqa: BLE001 (`_failed` logs it)
            return _failed(step, error)

    async def _refused(self, step: "_Request[S]", error: KafkaError) -> Any:
        """Return the refusal of a request; the refusal of a large request is made in a thread."""
        if step.size_bytes <= ELEMENTS_AT_ONCE:
            return _refusal(step, error)
        return await self._large_messages.run(_refusal, step, without_frames(error))

    async def _complete(self, step: "_Request[S]", response: Any) -> Answer:
        """Carry a response through the steps after the handler."""
        throttle_ms = 0 if self._quotas is None else _throttle(response, step)
        if not response:
            return self._measured(step, [], throttle_ms)
        version, correlation_id = step.context.version, step.correlation_id
        try:
            at_once = elements_at_once(step.size_bytes, is_produce=step.route.key == PRODUCE_KEY)
            parts = response_parts(response, version, correlation_id, at_once)
        except ManyElements:
            return await self._encode_large(step, response, throttle_ms)
        return self._measured(step, parts, throttle_ms)

    async def _encode_large(self, step: "_Request[S]", response: Any, throttle_ms: int) -> Answer:
        version, correlation_id = step.context.version, step.correlation_id
        connection = step.context.connection
        parts, room = await self._large_messages.encoded(
            step.route.key,
            _encode_and_free,
            step.request,
            response,
            version,
            correlation_id,
            follows=connection.follows,
        )
        assert connection.unsent is None, "the responses before it were sent when it waited to be encoded"
        connection.unsent = room
        return self._measured(step, parts, throttle_ms)

    def _measured(self, step: "_Request[S]", parts: list[Any], throttle_ms: int) -> Answer:
        if self._observer is not None and self._observer.enabled:
            self._measure(self._observer, step, parts, throttle_ms)
        return parts, throttle_ms

    # -- the steps -----------------------------------------------------------------------------------------------

    def _decode(self, frame: bytearray, elements_max: int) -> "Decoded[S]":
        """Decode a frame; returns the route, the header, the version of the response, and the request."""
        header, body_offset = parse_request_header(frame)
        route = self._routes.get(header.api_key)
        if route is None:
            raise Disconnect(f"API key {header.api_key} is not supported on this listener")
        if route.min_version <= header.api_version <= route.max_version:
            most = min(elements_max, route.elements_max)
            request: Any = decode(route.request, header.api_version, frame, body_offset, most)
            return route, header, header.api_version, request
        if header.api_key == API_VERSIONS_KEY:
            unsupported = replace(route, handle=_unsupported_api_versions(route))
            return unsupported, header, 0, route.request()
        raise Disconnect(f"version {header.api_version} of {route.name} is not supported")

    def _measure(
        self, observer: RequestObserver, step: "_Request[S]", parts: list[Any], throttle_ms: int
    ) -> None:
        observer.request_completed(
            step.route.name,
            step.context,
            duration_s=self._clock() - step.began_s,
            request_size_bytes=step.size_bytes,
            response_size_bytes=sum(map(len, parts)),
            throttle_ms=throttle_ms,
        )


Decoded = tuple[Route[S], RequestHeader, int, Any]
"""A decoded request: the route, the header, the version of the response, and the request."""


@dataclass(slots=True)
class _Request(Generic[S]):
    """A decoded request with its context, for the handler and the steps after it."""

    route: Route[S]
    request: Any
    context: RequestContext[S]
    correlation_id: int
    size_bytes: int
    began_s: float


def _throttle(response: Any, step: _Request[Any]) -> int:
    """Return the throttle time in milliseconds, and write it into the response if its API has a field for it.

    A response may have one already: of the active controller, or of the handler of Fetch.
    """
    throttle_ms: int = getattr(response, "throttle_time_ms", 0)
    meter = step.context.meter
    if meter is not None and (
        counted_ms := meter.throttle(step.request, response, step.context.access)
    ) > throttle_ms:
        throttle_ms = counted_ms
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
    return throttle_ms


def _encode_and_free(request: Any, response: Any, version: int, correlation_id: int) -> list[Any]:
    """Encode a large response, and free the elements of both messages here in the thread, since that takes long too."""
    parts = response_parts(response, version, correlation_id)
    free_elements(response)
    free_elements(request)
    return parts


def _failed(step: _Request[Any], error: Exception) -> Answer:
    """Return the answer after a bug in minikafka, and log and count the bug. Called while the exception is handled."""
    name, context = step.route.name, step.context
    log.exception("request failed", api=name, version=context.version, client=context.client_id)
    FAILURES[name] += 1
    without_frames(error)
    response = _refusal(step, UnknownServerError())
    return response_parts(response, context.version, step.correlation_id), 0


def _unsupported_api_versions(route: Route[Any]) -> Handler[Any]:
    """Answers an ApiVersions of an unknown version in version 0, which every client can read (KIP-511)."""

    async def handle(request: Any, context: RequestContext[Any]) -> ApiVersionsResponse:
        supported = ApiVersion(api_key=route.key, min_version=route.min_version, max_version=route.max_version)
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[supported])

    return handle


def _refusal(step: _Request[Any], error: KafkaError) -> Any:
    """Return the response that fails the whole request: the one place where an exception becomes an error code.

    Raises:
        Disconnect: The client expects no response: it is a Produce with acks=0.
    """
    if getattr(step.request, "acks", None) == 0:
        raise Disconnect(f"{step.route.name}: {error}")
    without_frames(error)
    return refusal_of(step.request, step.route.response, step.context.version, error)
