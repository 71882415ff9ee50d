"""Serves the connections of all client listeners, one trio task each, and enforces the limits on their number."""

import math
from collections import Counter
from collections.abc import Callable

import structlog
import trio

from minikafka.broker.connections.connection import Connection
from minikafka.broker.connections.exchange import FrameHandler
from minikafka.broker.connections.listening import Listening
from minikafka.broker.connections.request_memory import RequestMemory
from minikafka.broker.connections.request_times import RequestTimes
from minikafka.broker.connections.transport import Transport

log = structlog.get_logger("minikafka.server")

WARNING_INTERVAL_S = 1.0
ACCEPTED_IN_A_STEP = 32
"""Connections that are accepted before other tasks run; they take a millisecond or two. With one at a time, the
kernel's queue would overflow when many clients connect at once."""


class Server:
    """Accepts and serves connections on all client listeners of a node.

    Args:
        handler: Answers the requests.
        size_bytes_max: The largest request (`socket.request.max.bytes`).
        connections_max: Returns the most connections: `max.connections`, or fewer for which descriptors suffice.
        connections_max_of: The most connections from one client address (`max.connections.per.ip` and overrides).
        memory: Limits the bytes of the requests of all connections.
        times: Counts and measures requests for the metrics; None without metrics.

    Attributes:
        connections: The open connections, oldest first.
        accepted: How many connections were accepted so far, without those refused.
    """

    def __init__(
        self,
        handler: FrameHandler,
        *,
        size_bytes_max: int,
        connections_max: Callable[[], int],
        connections_max_of: Callable[[str], int],
        memory: RequestMemory | None = None,
        times: RequestTimes | None = None,
    ) -> None:
        self._handler = handler
        self._size_bytes_max = size_bytes_max
        self._connections_max = connections_max
        self._connections_max_of = connections_max_of
        self._memory = memory or RequestMemory()
        self._times = times
        self.accepted = 0
        self.connections: dict[Connection, None] = {}
        self._by_host: Counter[str] = Counter()
        self._refused = 0
        self._next_warning = -math.inf

    async def serve(self, listening: Listening, listener_name: str) -> None:
        """Accept connections until cancelled; then close the listener and the connections that it accepted."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listening.run)
            try:
                while True:
                    for _ in range(ACCEPTED_IN_A_STEP):
                        accepted = await listening.accept()
                        if accepted is not None:
                            self._admit(nursery, accepted, listener_name)
                    await trio.lowlevel.checkpoint()  # Clients that connect without end must not starve others.
            finally:
                listening.close()

    async def serve_one(self, transport: Transport, listener_name: str) -> None:
        """Serve a connection that was accepted elsewhere, until it ends; above the limits, close it at once."""
        connection = self._connection(transport, listener_name)
        if connection is not None:
            await self._serve(connection, transport.peer_host)

    def _admit(self, nursery: trio.Nursery, transport: Transport, listener_name: str) -> None:
        connection = self._connection(transport, listener_name)
        if connection is not None:
            nursery.start_soon(self._serve, connection, transport.peer_host)

    def _connection(self, transport: Transport, listener_name: str) -> Connection | None:
        """Create and count the connection of a transport; returns None if it was refused because of the limits."""
        host = transport.peer_host
        if len(self.connections) >= self._connections_max() or self._by_host[host] >= self._connections_max_of(host):
            self._refuse(transport)
            return None
        connection = Connection(
            transport,
            self._handler,
            listener=listener_name,
            size_bytes_max=self._size_bytes_max,
            memory=self._memory,
            times=self._times,
        )
        self.accepted += 1
        self.connections[connection] = None
        self._by_host[host] += 1
        return connection

    def _refuse(self, transport: Transport) -> None:
        """Close a connection that exceeds the limits, and log a warning, at most once a second.

        The warning has the number of connections that were refused since the last warning.
        """
        transport.close()
        self._refused += 1
        if trio.current_time() >= self._next_warning:
            log.warning(
                "connection refused: too many connections",
                client=transport.peer_host,
                connections=len(self.connections),
                refused=self._refused,
            )
            self._refused = 0
            self._next_warning = trio.current_time() + WARNING_INTERVAL_S

    async def _serve(self, connection: Connection, host: str) -> None:
        info = connection.info
        log.debug("connection opened", client=host, port=info.client_port, listener=info.listener)
        try:
            await connection.serve()
        finally:
            log.debug("connection ended", client=host, port=info.client_port, listener=info.listener)
            del self.connections[connection]
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]
