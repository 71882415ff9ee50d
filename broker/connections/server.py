"""Serves the connections of all client listeners, one trio task each, and enforces the limits on their number."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog
import trio

from minikafka.broker.connections.connection import Connection
from minikafka.broker.connections.exchange import FrameHandler
from minikafka.broker.connections.listening import Listening
from minikafka.broker.connections.request_memory import RequestMemory
from minikafka.broker.connections.request_times import RequestTimes
from minikafka.broker.connections.transport import Transport
from minikafka.broker.quotas.connection_rates import ConnectionRates
from minikafka.controller.line_rate import LineRate

log = structlog.get_logger("minikafka.server")

WARNING_INTERVAL_S = 1.0
CLOSED_OF_ADDRESS_MAX = 10
"""The most lines a second about connections of an address that are closed for what their clients sent."""
ACCEPTED_IN_A_STEP = 32
"""Connections that are accepted before other tasks run; they take a millisecond or two. With one at a time, the
kernel's queue would overflow when many clients connect at once."""


DELAYED_MAX = 1000
"""The most connections that are closed later; those beyond are closed at once."""


class Guard(Protocol):
    """What the connections of a listener have to pass: their authentication."""

    @property
    def message_bytes_max(self) -> int:
        """The largest request before the connection has passed."""
        ...

    def handler(self) -> FrameHandler:
        """Return the handler of a new connection."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of the connections of a node.

    Attributes:
        most: The number of the node's connections from which on a listener accepts none: `max.connections`, or fewer
            for which descriptors suffice. The listener of brokers may have more.
        most_on: The most connections of a listener (`listener.name.<listener>.max.connections`).
        most_of: The most connections from one client address (`max.connections.per.ip` and overrides).
        rates: The rates of new connections; None without limits.
    """

    most: Callable[[str], int]
    most_on: Callable[[str], int]
    most_of: Callable[[str], int]
    rates: ConnectionRates | None = None


class Server:
    """Accepts and serves connections on all client listeners of a node.

    Args:
        handler: Answers the requests.
        size_bytes_max: The largest request (`socket.request.max.bytes`).
        limits: The limits of the number and the rate of connections.
        memory: Limits the bytes of the requests of all connections.
        times: Counts and measures requests for the metrics; None without metrics.
        guards: By listener, what its connections have to pass before `handler` gets their requests.

    Attributes:
        connections: The open connections, oldest first.
        guards: By listener, what its connections have to pass.
        accepted: How many connections were accepted so far, without those refused.
    """

    def __init__(
        self,
        handler: FrameHandler,
        *,
        size_bytes_max: int,
        limits: ConnectionLimits,
        memory: RequestMemory | None = None,
        times: RequestTimes | None = None,
        guards: Mapping[str, Guard] | None = None,
    ) -> None:
        self._handler = handler
        self._size_bytes_max = size_bytes_max
        self._limits = limits
        self._memory = memory or RequestMemory()
        self._times = times
        self.guards = guards or {}
        self.accepted = 0
        self.connections: dict[Connection, None] = {}
        self._numbers: Counter[tuple[str, str]] = Counter()
        """The open connections of each listener, `("listener", name)`, and of each address, `("host", address)`."""
        self._refused = 0
        self._next_warning = -math.inf
        self._lines = LineRate(lambda: trio.current_time() * 1000, CLOSED_OF_ADDRESS_MAX)

    async def serve(self, listening: Listening, listener_name: str) -> None:
        """Accept connections until cancelled; then close the listener and the connections that it accepted."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listening.run)
            try:
                while True:
                    for _ in range(ACCEPTED_IN_A_STEP):
                        accepted = await listening.accept()
                        if accepted is not None:
                            await self._pace(accepted, listener_name)
                            self._admit(nursery, accepted, listener_name)
                    await trio.lowlevel.checkpoint()  # Clients that connect without end must not starve others.
            finally:
                listening.close()

    async def serve_one(self, transport: Transport, listener_name: str) -> None:
        """Serve a connection that was accepted elsewhere, until it ends; above the limits, close it at once."""
        connection = self._connection(transport, listener_name)
        if connection is not None:
            await self._serve(connection, transport.peer_host)

    async def _pace(self, transport: Transport, listener_name: str) -> None:
        """Keep a new connection, and all that come after it, waiting while the listener has more than its rate."""
        rates = self._limits.rates
        pause_s = 0.0 if rates is None else rates.pause_s(listener_name)
        if pause_s:
            try:
                await trio.sleep(pause_s)
            except trio.Cancelled:
                transport.close()
                raise

    def _admit(self, nursery: trio.Nursery, transport: Transport, listener_name: str) -> None:
        rates = self._limits.rates
        if rates is not None and (refused_for_s := rates.refused_for_s(transport.peer_host)):
            nursery.start_soon(_close_later, transport, refused_for_s, rates)
            return
        connection = self._connection(transport, listener_name)
        if connection is not None:
            nursery.start_soon(self._serve, connection, transport.peer_host)

    def _connection(self, transport: Transport, listener_name: str) -> Connection | None:
        """Create and count the connection of a transport; returns None if it was refused because of the limits."""
        host = transport.peer_host
        if (
            len(self.connections) >= self._limits.most(listener_name)
            or self._numbers["listener", listener_name] >= self._limits.most_on(listener_name)
            or self._numbers["host", host] >= self._limits.most_of(host)
        ):
            self._refuse(transport, listener_name)
            return None
        guard = self.guards.get(listener_name)
        connection = Connection(
            transport,
            self._handler if guard is None else guard.handler(),
            listener=listener_name,
            size_bytes_max=self._size_bytes_max if guard is None else guard.message_bytes_max,
            memory=self._memory,
            times=self._times,
            lines=self._lines,
        )
        self.accepted += 1
        self.connections[connection] = None
        self._numbers.update([("host", host), ("listener", listener_name)])
        return connection

    def _refuse(self, transport: Transport, listener_name: str) -> None:
        """Close a connection that exceeds the limits, and log a warning, at most once a second.

        The warning has the number of connections that were refused since the last warning.
        """
        transport.close()
        self._refused += 1
        if trio.current_time() >= self._next_warning:
            log.warning(
                "connection refused: too many connections",
                client=transport.peer_host,
                listener=listener_name,
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
            for subject in (("host", host), ("listener", info.listener)):
                self._numbers[subject] -= 1
                if not self._numbers[subject]:
                    del self._numbers[subject]


async def _close_later(transport: Transport, seconds: float, rates: ConnectionRates) -> None:
    """Close a connection that its address has too many of: late, so that its client does not try again at once."""
    rates.delayed += 1
    try:
        if rates.delayed <= DELAYED_MAX:
            await trio.sleep(seconds)
    finally:
        rates.delayed -= 1
        transport.close()
