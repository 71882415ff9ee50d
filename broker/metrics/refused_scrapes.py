"""`RefusedScrapes`: logs who was refused at the metrics listener, and why, at a bounded rate (`LineRate`).

Uses trio: its clock.
"""

import structlog
import trio

from minikafka.controller.line_rate import LineRate

__all__ = ["RefusedScrapes"]

log = structlog.get_logger("minikafka.metrics")

LINES_OF_ADDRESS_MAX = 10
"""The most lines a second about one address."""


class RefusedScrapes:
    """The log of what a metrics listener refuses: handshakes of TLS, and requests without the login."""

    def __init__(self) -> None:
        self._lines = LineRate(lambda: trio.current_time() * 1000, LINES_OF_ADDRESS_MAX)

    def add(self, client: str, reason: str) -> None:
        """Log that the client at an address was refused, or count it; `reason` has no secret."""
        if more := self._lines.left_out():
            log.info("more scrapes refused", count=more)
        if self._lines.admits(client):
            log.info("scrape refused", client=client, reason=reason)
