"""The pages of the metrics listener: `/metrics`, `/healthz`, `/readyz`, and `/`. Trio: many wait for one `/metrics`."""

from collections.abc import Callable, Sequence

import trio

from minikafka.broker.metrics.exposition import CONTENT_TYPE, text_in_steps
from minikafka.broker.metrics.family import Collector
from minikafka.broker.metrics.http_server import Response
from minikafka.controller.steps import in_steps

__all__ = ["Endpoints"]

PATHS = "/metrics /healthz /readyz"


class Endpoints:
    """Answers paths.

    Args:
        collectors: What `/metrics` shows, in this order.
        why_not_ready: Returns why the node does not serve clients now; "" if it does.
    """

    def __init__(self, collectors: Sequence[Collector], why_not_ready: Callable[[], str]) -> None:
        self._collectors = collectors
        self._why_not_ready = why_not_ready
        self._making = trio.Lock()
        self._made: Response | None = None
        """The last `/metrics`, while somebody waits who can have it."""
        self._begun = 0

    async def respond(self, path: str) -> Response:
        """The page of a path."""
        match path:
            case "/metrics":
                return await self._metrics()
            case "/healthz":
                return Response.text(200, "ok")
            case "/readyz":
                reason = self._why_not_ready()
                return Response.text(503, reason) if reason else Response.text(200, "ready")
            case "/":
                return Response.text(200, PATHS)
            case _:
                return Response.text(404, f"not found; there are {PATHS}")

    async def _metrics(self) -> Response:
        """Made once for all that have asked before it began: however many ask, one is made at a time."""
        asked_at = self._begun
        async with self._making:
            made = self._made
            if made is None or self._begun == asked_at:
                self._begun += 1
                self._made = None
                made = Response(200, await in_steps(text_in_steps(self._collectors)), CONTENT_TYPE)
            self._made = made if self._making.statistics().tasks_waiting else None
            return made
