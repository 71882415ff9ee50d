"""`AuthenticationRecord`: counts the logins at a listener (succeeded, refused, renewed, expired), logs refused ones.

Strangers cause these lines, so each address has a few of them in a second (`LineRate`). Source: Kafka's `Selector`.
"""

from dataclasses import dataclass

import structlog

from minikafka.broker.connections.request_context import ConnectionInfo
from minikafka.controller.line_rate import LineRate

__all__ = ["AuthenticationRecord"]

log = structlog.get_logger("minikafka.authentication")


@dataclass(slots=True)
class AuthenticationRecord:
    """Counts and logs the authentications of the clients of a listener.

    Attributes:
        lines: Limits the lines about failures.
        succeeded, failed: The first authentications of connections.
        reauthenticated, reauthentication_failed: The later ones (KIP-368).
        expired: The connections that were closed because their session was over.
    """

    lines: LineRate
    succeeded: int = 0
    failed: int = 0
    reauthenticated: int = 0
    reauthentication_failed: int = 0
    expired: int = 0

    def success(self, connection: ConnectionInfo, mechanism: str, *, again: bool) -> None:
        """A client has proved who it is, for the first time on its connection or again."""
        if again:
            self.reauthenticated += 1
            return
        self.succeeded += 1
        log.debug(
            "client authenticated",
            client=connection.client_host,
            listener=connection.listener,
            mechanism=mechanism,
            principal=str(connection.principal),
        )

    def failure(self, connection: ConnectionInfo, mechanism: str, reason: str, *, again: bool) -> None:
        """A client could not prove who it is; `reason` has no secret."""
        if again:
            self.reauthentication_failed += 1
        else:
            self.failed += 1
        if more := self.lines.left_out():
            log.info("more authentications failed", count=more)
        if self.lines.admits(connection.client_host):
            log.info(
                "authentication failed",
                client=connection.client_host,
                listener=connection.listener,
                mechanism=mechanism,
                reason=reason,
            )
