"""Closes connections that are idle, whose client is gone, or whose client moves a large message too slowly.

A client that disconnected is noticed here while its request waits. A client is too slow if it sends a large request or
reads a response slowly while others wait for the memory that it holds.
"""

from collections.abc import Collection

import structlog
import trio

from minikafka.broker.connections.connection import Connection
from minikafka.storage.steps import Pauses

log = structlog.get_logger("minikafka.server")

CHECK_INTERVAL_S = 5.0
IDLE = "idle for connections.max.idle.ms"
GONE = "client disconnected during a request"
IN_THE_WAY = "client sends or reads a large message too slowly, and others wait for the memory that it takes"
IN_THE_WAY_S_MAX = 10.0
"""How long a client may be slow while others wait for the memory of its request or response. Shorter waits are usual,
since a response takes all room while it is encoded."""
IN_THE_WAY_RATE_MIN = 256 << 10
"""The lowest rate at which a client may move such a message, in bytes a second since it was first seen in transfer."""


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
            if connection not in connections:  # The connection was closed meanwhile.
                continue
            reason = _reason_to_close(connection, idle_s_max)
            if reason is IN_THE_WAY:
                connection.log_closed(reason)
            elif reason:
                log.debug("connection closed", client=connection.info.client_host, reason=reason)
            if reason:
                connection.scope.cancel()


def _reason_to_close(connection: Connection, idle_s_max: float) -> str:
    """Return why a connection is to be closed; "" if it stays open."""
    if connection.activity.is_idle(idle_s_max):
        return IDLE
    rooms = connection.rooms_in_transfer
    if connection.activity.is_in_the_way(rooms, IN_THE_WAY_S_MAX, IN_THE_WAY_RATE_MIN):
        return IN_THE_WAY
    return GONE if connection.busy and connection.transport.peer_is_gone() else ""
