"""From a frame to the handler of its API and back to an answer.

The table of routes is what ApiVersions advertises: an API is listed if, and only if, a module in `apis/` handles it,
with exactly the versions that the module says it honours.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from minikafka.broker.connections.request_context import Disconnect, RequestContext
from minikafka.protocol.apis import api_of
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.headers import RequestHeader, parse_request_header, response_parts
from minikafka.protocol.message import MalformedMessage, decode
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

if TYPE_CHECKING:
    from minikafka.broker.connections.connection import Connection
    from minikafka.broker.node.node import Node

log = structlog.get_logger("minikafka.request")

API_VERSIONS_KEY = 18

Handler = Callable[[Any, RequestContext], Awaitable[Any]]


@dataclass(slots=True, frozen=True)
class Route:
    """One API as this node honours it.

    Attributes:
        advertised_min: What ApiVersions says where that differs from what is honoured (Produce: KAFKA-18659).
        advertised: Whether ApiVersions names it at all.
        waits: Whether an answer may take its time by design.
    """

    key: int
    request: type
    response: type
    min_version: int
    max_version: int
    advertised_min: int
    advertised: bool
    waits: bool
    handle: Handler


def routes_of(modules: Sequence[Any]) -> dict[int, Route]:
    """The routing table, from each handler module's `REQUEST`, `VERSIONS` and `handle`."""
    routes: dict[int, Route] = {}
    for module in modules:
        api = api_of(module.REQUEST)
        low, _, high = str(module.VERSIONS).partition("-")
        minimum, maximum = int(low), int(high or low)
        advertised_min = int(getattr(module, "ADVERTISED_MIN_VERSION", minimum))
        advertised = bool(getattr(module, "ADVERTISED", True))
        assert api.key not in routes, f"two handlers for {api.name}"
        waits = bool(getattr(module, "WAITS", False))
        routes[api.key] = Route(
            api.key,
            module.REQUEST,
            api.response,
            minimum,
            maximum,
            advertised_min,
            advertised,
            waits,
            module.handle,
        )
    return dict(sorted(routes.items()))


class Dispatcher:
    """Answers frames. One for a node; it keeps nothing between requests.

    Args:
        node: Handed to the handlers.
        routes: See `routes_of`.
    """

    def __init__(self, node: "Node", routes: dict[int, Route]) -> None:
        self._node = node
        self._routes = routes
        self._waiting_keys = {route.key for route in routes.values() if route.waits}

    def may_wait(self, frame: bytearray) -> bool:
        """Whether the answer to a frame may take its time."""
        return int.from_bytes(frame[:2], "big") in self._waiting_keys

    async def answer(self, frame: bytearray, connection: "Connection") -> list[Any]:
        """The parts of the answer, size first; empty where there is none (Produce with acks 0).

        Raises:
            MalformedMessage: The frame is no request of a kind and version that this node knows.
            Disconnect: The only answer is to hang up.
        """
        header, body_offset = parse_request_header(frame)
        route = self._routes.get(header.api_key)
        if route is None:
            raise Disconnect(f"API {header.api_key} is not one of this listener's")
        if not route.min_version <= header.api_version <= route.max_version:
            if header.api_key == API_VERSIONS_KEY:
                return self._unsupported_api_versions(header, route)
            raise Disconnect(f"version {header.api_version} of {route.request.__name__} is not supported")
        request: Any = decode(route.request, header.api_version, frame, body_offset)
        context = self._context(header, connection)
        try:
            response = await self._handle(route, request, context)
            return response_parts(response, header.api_version, header.correlation_id) if response else []
        except (Disconnect, MalformedMessage):
            raise
        except Exception as error:
            # A bug of ours: it must cost this connection and no other, and it must be heard of.
            log.exception("a request failed", api=route.request.__name__, client=context.client_id)
            raise Disconnect(f"{route.request.__name__} failed: {error!r}") from error

    async def _handle(self, route: Route, request: Any, context: RequestContext) -> Any:
        try:
            return await route.handle(request, context)
        except KafkaError as error:
            return _refusal(route, error)

    def _context(self, header: RequestHeader, connection: "Connection") -> RequestContext:
        return RequestContext(
            self._node,
            header.api_version,
            header.client_id or "",
            connection.transport.peer_host,
            connection.listener,
            connection.transport.local_host,
            connection.transport.local_port,
        )

    def _unsupported_api_versions(self, header: RequestHeader, route: Route) -> list[Any]:
        """KIP-511: the answer that every client can read, in version 0."""
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        response.api_keys = [
            ApiVersion(api_key=route.key, min_version=route.min_version, max_version=route.max_version)
        ]
        return response_parts(response, 0, header.correlation_id)


def _refusal(route: Route, error: KafkaError) -> Any:
    """The whole request's error as a response: the one place where an exception becomes an answer.

    Raises:
        Disconnect: Responses of this API have no room for an error of the whole request.
    """
    response = route.response()
    if not hasattr(response, "error_code"):
        raise Disconnect(f"{route.request.__name__}: {error}")
    response.error_code = error.code
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response
