"""`HandshakeLog` logs what other nodes, or strangers, send at the controller listener and must not, at a bounded rate.

Trio: its clock.
"""

import structlog
import trio

from minikafka.controller.line_rate import LineRate
from minikafka.controller.quorum.peer_network import peer_host
from minikafka.protocol.shortened import shortened

__all__ = ["HandshakeLog"]

log = structlog.get_logger("minikafka.peers")

LOGGED_REFUSALS_MAX = 100
LINES_OF_KIND_MAX = 10
"""The most lines about refusals, and about malformed frames, in a second."""
WARNING_INTERVAL_S = 1.0


class HandshakeLog:
    """Logs failed and refused handshakes, and malformed frames after a handshake."""

    def __init__(self) -> None:
        self._logged_refusals: set[str] = set()
        self._failed = 0
        self._next_warning = 0.0
        self._refusals = LineRate(lambda: trio.current_time() * 1000, LINES_OF_KIND_MAX)
        self._malformed = LineRate(lambda: trio.current_time() * 1000, LINES_OF_KIND_MAX)

    def failed(self, stream: trio.abc.Stream, error: str) -> None:
        """Log a failed handshake, at most once in `WARNING_INTERVAL_S`. `failed` counts those since the last line."""
        self._failed += 1
        if trio.current_time() >= self._next_warning:
            log.warning("peer handshake failed", client=peer_host(stream), error=error, failed=self._failed)
            self._failed = 0
            self._next_warning = trio.current_time() + WARNING_INTERVAL_S

    def refused(self, reason: str) -> None:
        """Log each reason once, or again after many other reasons. The reasons quote what unknown nodes send, so that
        the set of logged reasons must be bounded, and the lines of a second."""
        if more := self._refusals.left_out():
            log.warning("more peer handshakes refused", count=more)
        reason = shortened(reason)
        if reason not in self._logged_refusals and self._refusals.admits():
            if len(self._logged_refusals) >= LOGGED_REFUSALS_MAX:
                self._logged_refusals.clear()
            self._logged_refusals.add(reason)
            log.error("peer handshake refused", reason=reason)

    def malformed_frame(self, node: int, error: str) -> None:
        """Log that a node was disconnected because of what it sent."""
        if more := self._malformed.left_out():
            log.warning("more peers disconnected", count=more)
        if self._malformed.admits():
            log.error("peer disconnected", reason="malformed frame", node=node, error=error)
