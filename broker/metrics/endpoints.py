"""`Endpoints`: answers the paths of the metrics listener: `/metrics`, `/healthz`, `/readyz` and `/`.

`/metrics` may ask for a login. The other pages never do: they tell little, and probes have no password.
Uses trio: many requests may wait for one `/metrics`, and a wrong password is answered late.
"""

from collections.abc import Callable, Sequence

import trio

from minikafka.broker.metrics.basic_login import BasicLogin
from minikafka.broker.metrics.exposition import CONTENT_TYPE, text_in_steps
from minikafka.broker.metrics.family import Collector
from minikafka.broker.metrics.http_server import Request, Response
from minikafka.broker.metrics.refused_scrapes import RefusedScrapes
from minikafka.storage.steps import in_steps

__all__ = ["Endpoints"]

PATHS = "/metrics /healthz /readyz"


class Endpoints:
    """Makes the pages of the metrics listener.

    Args:
        collectors: The collectors whose families `/metrics` shows, in this order.
        why_not_ready: Returns why the node does not serve clients now; "" if it does.
        login: The user of `/metrics`; None if everybody may read it.
        refused: Logs requests without the login; the server of the pages logs there as well.
        failure_delay_ms: How long a wrong password is answered later.
    """

    def __init__(
        self,
        collectors: Sequence[Collector],
        why_not_ready: Callable[[], str],
        login: BasicLogin | None = None,
        *,
        refused: RefusedScrapes | None = None,
        failure_delay_ms: int = 0,
    ) -> None:
        self._collectors = collectors
        self._why_not_ready = why_not_ready
        self._login = login
        self._refused = refused or RefusedScrapes()
        self._failure_delay_ms = failure_delay_ms
        self._making = trio.Lock()
        self._made: Response | None = None
        """The last page of `/metrics`, while requests wait that may be answered with it."""
        self._begun = 0

    async def respond(self, request: Request) -> Response:
        """Return the page of the path of a request."""
        match request.path:
            case "/metrics":
                return await self._refusal(request) or await self._metrics()
            case "/healthz":
                return Response.text(200, "ok")
            case "/readyz":
                reason = self._why_not_ready()
                return Response.text(503, reason) if reason else Response.text(200, "ready")
            case "/":
                return Response.text(200, PATHS)
            case _:
                return Response.text(404, f"not found; there are {PATHS}")

    async def _refusal(self, request: Request) -> Response | None:
        """The response to a request without the login that is needed; None for any other request."""
        why = "" if self._login is None else self._login.why_refused(request.authorization)
        if not why:
            return None
        self._refused.add(request.client, why)
        if request.authorization:
            await trio.sleep(self._failure_delay_ms / 1000)
        return Response.text(401, f"/metrics needs a login by HTTP basic authentication: {why}")

    async def _metrics(self) -> Response:
        """Return the page of `/metrics`.

        One page at a time is made, and it answers all requests that came before its making began.
        """
        asked_at = self._begun
        async with self._making:
            made = self._made
            if made is None or self._begun == asked_at:
                self._begun += 1
                self._made = None
                made = Response(200, await in_steps(text_in_steps(self._collectors)), CONTENT_TYPE)
            self._made = made if self._making.statistics().tasks_waiting else None
            return made
