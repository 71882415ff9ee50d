"""Carries each request through its steps: decode, principal, authorize, handle, throttle, encode, measure.

A step is a method of `Dispatcher` that calls an object of `request_steps.py`. This is the one place where an error that
a handler raises becomes an error code; a bug in a handler is logged and closes the connection. The response size is
known once the response is encoded, so measuring is the last step; `Connection` sends the response and is then muted for
the throttle time.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

import structlog

from minikafka.broker.connections.large_messages import (
    ELEMENTS_AT_ONCE,
    ELEMENTS_MAX,
    LARGE_MESSAGES,
    LargeMessages,
)
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect, Principal, RequestContext
from minikafka.broker.connections.request_steps import (
    Authorizer,
    Quotas,
    RequestObserver,
    anonymous,
)
from minikafka.broker.connections.routes import Route
from minikafka.protocol.apis import API_VERSIONS_KEY
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.headers import RequestHeader, parse_request_header, response_parts
from minikafka.protocol.message import MalformedMessage, ManyElements, decode
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

log = structlog.get_logger("minikafka.request")

S = TypeVar("S")


class Dispatcher(Generic[S]):
    """Answers frames. There is one for a node; it keeps no state between requests.

    Args:
        services: Handed to the handlers.
        routes: The APIs, see `routes_of`.
        clock: Seconds that only grow, for measuring.
        principal_of: Names the client of a connection.
        authorizer: Refuses requests; None allows every request, as Kafka does without `authorizer.class.name`.
        quotas: Throttles clients; None throttles no client.
        observer: Notified of completed requests.
        large_messages: Decodes and encodes messages that take longer than a step of a task may take.
    """

    def __init__(
        self,
        services: S,
        routes: Mapping[int, Route[S]],
        *,
        clock: Callable[[], float],
        principal_of: Callable[[ConnectionInfo], Principal] = anonymous,
        authorizer: Authorizer | None = None,
        quotas: Quotas | None = None,
        observer: RequestObserver | None = None,
        large_messages: LargeMessages = LARGE_MESSAGES,
    ) -> None:
        self._services = services
        self._routes = routes
        self._clock = clock
        self._principal_of = principal_of
        self._authorizer = authorizer
        self._quotas = quotas
        self._observer = observer
        self._large_messages = large_messages

    async def answer(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        """Carry a request through all steps. Cancellation does not undo the handler's effects.

        Raises:
            MalformedMessage: The frame is no request of an API and version that this node supports.
            Disconnect: The connection must be closed without a response.
        """
        began_s = self._clock()
        try:
            route, header, version, request = self._decode(frame, ELEMENTS_AT_ONCE)
        except ManyElements:
            route, header, version, request = await self._decode_large(frame)
        try:
            principal = self._principal_of(connection)
            context = RequestContext(self._services, version, header.client_id or "", connection, principal)
            response = await self._authorize_and_handle(route, request, context)
            throttle_ms = self._throttle(request, response, context, frame, began_s) if self._quotas else 0
            try:
                parts = response_parts(response, version, header.correlation_id, ELEMENTS_AT_ONCE) if response else []
            except ManyElements:
                parts = await self._large_messages.run(response_parts, response, version, header.correlation_id)
            if self._observer is not None and self._observer.enabled:
                self._measure(self._observer, route, context, began_s, frame, parts, throttle_ms)
        except (Disconnect, MalformedMessage):
            raise
        except Exception as error:
            # A bug in minikafka: it is logged, and closes only this connection.
            log.exception("request failed", api=route.name, version=version, client=header.client_id or "")
            raise Disconnect(f"{route.name} failed: {error!r}") from error
        return parts, throttle_ms

    # -- the steps -----------------------------------------------------------------------------------------------

    async def _decode_large(self, frame: bytearray) -> tuple[Route[S], RequestHeader, int, Any]:
        try:
            return await self._large_messages.run(self._decode, frame, ELEMENTS_MAX)
        except ManyElements:
            raise Disconnect(f"a request with more than {ELEMENTS_MAX} elements in its arrays") from None

    def _decode(self, frame: bytearray, elements_max: int) -> tuple[Route[S], RequestHeader, int, Any]:
        """The route, the header, the version of the response, and the request."""
        header, body_offset = parse_request_header(frame)
        route = self._routes.get(header.api_key)
        if route is None:
            raise Disconnect(f"API key {header.api_key} is not supported on this listener")
        if route.min_version <= header.api_version <= route.max_version:
            request: Any = decode(route.request, header.api_version, frame, body_offset, elements_max)
            return route, header, header.api_version, request
        if header.api_key == API_VERSIONS_KEY:
            unsupported = replace(route, handle=_unsupported_api_versions(route))
            return unsupported, header, 0, route.request()
        raise Disconnect(f"version {header.api_version} of {route.name} is not supported")

    async def _authorize_and_handle(self, route: Route[S], request: Any, context: RequestContext[S]) -> Any:
        try:
            if self._authorizer is not None:
                self._authorizer.authorize(request, context)
            return await route.handle(request, context)
        except KafkaError as error:
            return _refusal(route, error)

    def _throttle(
        self, request: Any, response: Any, context: RequestContext[S], frame: bytearray, began_s: float
    ) -> int:
        """The throttle time, written into the response where its API has a field for it."""
        assert self._quotas is not None
        handled_s = self._clock() - began_s
        throttle_ms = self._quotas.throttle_time_ms(
            request, response, context, request_size_bytes=len(frame), handled_s=handled_s
        )
        if throttle_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        return throttle_ms

    def _measure(
        self,
        observer: RequestObserver,
        route: Route[S],
        context: RequestContext[S],
        began_s: float,
        frame: bytearray,
        parts: list[Any],
        throttle_ms: int,
    ) -> None:
        observer.request_completed(
            route.name,
            context,
            duration_s=self._clock() - began_s,
            request_size_bytes=len(frame),
            response_size_bytes=sum(map(len, parts)),
            throttle_ms=throttle_ms,
        )


def _unsupported_api_versions(route: Route[Any]) -> Callable[[Any, RequestContext[Any]], Any]:
    """Answers an ApiVersions of an unknown version in version 0, which every client can read (KIP-511)."""

    async def handle(request: Any, context: RequestContext[Any]) -> ApiVersionsResponse:
        supported = ApiVersion(api_key=route.key, min_version=route.min_version, max_version=route.max_version)
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[supported])

    return handle


def _refusal(route: Route[Any], error: KafkaError) -> Any:
    """A response that fails the whole request: the one place where an exception becomes an error code.

    Raises:
        Disconnect: Responses of this API have no error of the whole request.
    """
    response = route.response()
    if not hasattr(response, "error_code"):
        raise Disconnect(f"{route.name}: {error}")
    response.error_code = error.code
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response
