"""The interfaces of the steps of a request that surround its handler: principal, authorizer, quotas, observer.

A node uses these defaults:

    principal    identifies the client       default: ANONYMOUS, as on a PLAINTEXT listener of Kafka
    authorize    refuses a request           default: none; everything is allowed while `authorizer.class.name` is empty
    throttle     enforces client quotas      default: none
    measure      observes completed requests default: `request_log.RequestLog`

Pure. Security and quotas will add other implementations. The metrics need none: `request_times` counts requests beside
the steps, so that they cost little.
"""

from typing import Any, Protocol

from minikafka.broker.connections.request_context import ANONYMOUS, ConnectionInfo, Principal, RequestContext


def anonymous(connection: ConnectionInfo) -> Principal:
    """Return the principal of a connection without authentication, as Kafka's `DefaultKafkaPrincipalBuilder` does."""
    return ANONYMOUS


class Authorizer(Protocol):
    """Decides whether a principal may send a request."""

    def authorize(self, request: Any, context: RequestContext[Any]) -> None:
        """Return if the principal may send the request.

        Raises:
            KafkaError: The principal may not send the request; the whole request fails with this error.
        """
        ...


class Quotas(Protocol):
    """Counts requests, and computes how long a client is throttled."""

    def throttle_time_ms(
        self, request: Any, response: Any, context: RequestContext[Any], *, request_size_bytes: int, handled_s: float
    ) -> int:
        """Return for how many milliseconds the client's connection is muted after the response; 0 within quota.

        Args:
            response: The response; None for a request without a response.
            handled_s: How long authorization and handler took, in seconds.
        """
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
