"""The steps of a request around its handler, as the dispatcher calls them, each with what Kafka does by default.

    principal    who asks               ANONYMOUS on a PLAINTEXT listener
    authorize    may they               everybody may everything while `authorizer.class.name` is empty
    throttle     are they within quota  no quota is enforced
    measure      what did it take       a log event for each request at level DEBUG, as Kafka's request log

Pure; `security/`, `quotas.py` and `metrics.py` will bring other implementations.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import structlog

from minikafka.broker.connections.request_context import ANONYMOUS, ConnectionInfo, Principal, RequestContext

log = structlog.get_logger("minikafka.request")

DEBUG_LEVELS = ("DEBUG", "TRACE")


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


class AllowAll:
    """The authorizer of a node without `authorizer.class.name`."""

    def authorize(self, request: Any, context: RequestContext[Any]) -> None: ...


class Quotas(Protocol):
    """Counts requests, and says how long a client must be throttled."""

    def throttle_time_ms(
        self, request: Any, response: Any, context: RequestContext[Any], *, request_size_bytes: int, handled_s: float
    ) -> int:
        """Milliseconds for which the client's connection is muted after the response; 0 within quota.

        Args:
            response: None where the request gets none.
            handled_s: How long authorization and handler took, in seconds.
        """
        ...


class Unlimited:
    """No client quotas."""

    def throttle_time_ms(
        self, request: Any, response: Any, context: RequestContext[Any], *, request_size_bytes: int, handled_s: float
    ) -> int:
        return 0


class RequestObserver(Protocol):
    """Is notified of every request that was answered."""

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


class RequestLog:
    """Logs every request while the log level is DEBUG or lower.

    Args:
        levels: Level by logger, read at each request; it changes while the node runs (KIP-412).
        logger: The logger whose level counts.
    """

    def __init__(self, levels: Mapping[str, str], logger: str) -> None:
        self._levels = levels
        self._logger = logger

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
        if self._levels.get(self._logger) in DEBUG_LEVELS:
            log.debug(
                "request completed",
                api=api,
                version=context.version,
                client=context.client_id,
                host=context.connection.client_host,
                listener=context.connection.listener,
                principal=str(context.principal),
                duration_ms=round(duration_s * 1000, 3),
                request_bytes=request_size_bytes,
                response_bytes=response_size_bytes,
                throttle_ms=throttle_ms,
            )
