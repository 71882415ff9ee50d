"""The interfaces of the steps that surround a handler: quotas, observer, and what stands in front of handlers in tests.

A node uses these defaults:

    throttle     enforces client quotas      default: none
    measure      observes completed requests default: `request_log.RequestLog`
    interpose    sees each request before its handler, in nodes for tests    default: none

A handler authorizes its request itself (`RequestContext.access`), since Kafka's checks differ for each API. Pure. The
metrics need no step: `request_times` counts requests beside the steps, so that they cost little.
"""

from collections.abc import Collection
from typing import Any, Protocol, TypeVar

from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.connections.routes import Route
from minikafka.broker.quotas.request_meter import RequestMeter

S = TypeVar("S")


class Quotas(Protocol):
    """Counts requests; `broker/quotas/` has the quotas of a node."""

    @property
    def counted(self) -> Collection[bytes]:
        """The keys, as in frames, of the APIs whose requests are counted; read at each request."""
        ...

    def meter(self, user: str, client_id: str, size_bytes: int, began_s: float) -> RequestMeter:
        """Return what counts one request, and computes for how long its client is throttled."""
        ...


class RequestObserver(Protocol):
    """Is notified of completed requests."""

    @property
    def enabled(self) -> bool:
        """Whether to measure at all; read at each request."""
        ...

    def request_completed(
        self,
        api: str,
        context: RequestContext[Any],
        *,
        duration_s: float,
        request_size_bytes: int,
        response_size_bytes: int,
        throttle_ms: int,
    ) -> None:
        """Called when a response is ready to send. `duration_s` runs from the whole frame to the encoded response."""
        ...


class Interposer(RequestObserver, Protocol):
    """Stands in front of the handlers of a node. While `enabled` is true, as it always is, no request passes it by."""

    def routes(self, routes: dict[int, Route[S]]) -> dict[int, Route[S]]:
        """Return the routing table with handlers in place of those given."""
        ...
