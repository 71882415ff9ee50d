"""The interfaces of a request's steps besides its handler, with the default of a node for each.

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
    """The principal of a connection without authentication, as of Kafka's `DefaultKafkaPrincipalBuilder`."""
    return ANONYMOUS


class Authorizer(Protocol):
    """Decides whether a principal may send a request."""

    def authorize(self, request: Any, context: RequestContext[Any]) -> None:
        """Returns if it may.

        Raises:
            KafkaError: It may not; the whole request fails with this error.
        """
        ...


class Quotas(Protocol):
    """Counts requests, and computes how long a client is throttled."""

    def throttle_time_ms(
        self, request: Any, response: Any, context: RequestContext[Any], *, request_size_bytes: int, handled_s: float
    ) -> int:
        """Milliseconds for which the client's connection is muted after the response; 0 within quota.

        Args:
            response: None where the request gets none.
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
        """A response is ready to be sent. `duration_s` runs from the whole frame to the encoded response."""
        ...
