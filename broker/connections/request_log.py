"""Logs each completed request at level DEBUG, as Kafka's request log does: API, version, client, duration, sizes."""

from collections.abc import Mapping
from typing import Any

import structlog

from minikafka.broker.connections.request_context import RequestContext

log = structlog.get_logger("minikafka.request")

DEBUG_LEVELS = ("DEBUG", "TRACE")


class RequestLog:
    """Logs every request while the log level is DEBUG or lower.

    Args:
        levels: Level by logger, read at each request; it changes while the node runs (KIP-412).
        logger: The logger whose level counts.
    """

    def __init__(self, levels: Mapping[str, str], logger: str) -> None:
        self._levels = levels
        self._logger = logger

    @property
    def enabled(self) -> bool:
        """Whether the logger's level is DEBUG or lower now."""
        return self._levels.get(self._logger) in DEBUG_LEVELS

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
