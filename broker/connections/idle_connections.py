"""Closes connections that are idle, or whose client disconnected while its request waits."""

from collections.abc import Collection

import structlog
import trio

from minikafka.broker.connections.connection import Connection
from minikafka.broker.connections.pauses import Pauses

log = structlog.get_logger("minikafka.server")

CHECK_INTERVAL_S = 5.0


async def close_idle_connections(connections: Collection[Connection], idle_ms_max: int) -> None:
    """Check all connections every few seconds, some at a time, until cancelled.

    A connection is idle when no byte of a request arrived and no byte of a response was sent for `idle_ms_max`. As in
    Apache Kafka (`Selector.IdleExpiryManager`) that includes clients that do not read their responses, and fetches that
    wait longer, but not clients that are slow.

    Args:
        connections: The open connections; read at each check.
        idle_ms_max: `connections.max.idle.ms`; -1 for never.
    """
    idle_s_max = idle_ms_max / 1000 if idle_ms_max >= 0 else float("inf")
    while True:
        await trio.sleep(CHECK_INTERVAL_S)
        pause = Pauses()
        for connection in list(connections):
            await pause()
            if connection not in connections:  # It was closed meanwhile.
                continue
            idle = connection.is_idle(idle_s_max)
            if idle or (connection.busy and connection.transport.peer_is_gone()):
                log.debug(
                    "connection closed",
                    client=connection.info.client_host,
                    reason="idle for connections.max.idle.ms" if idle else "client disconnected during a request",
                )
                connection.scope.cancel()
