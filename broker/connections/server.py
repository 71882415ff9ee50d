"""Listeners: sockets that accept, limits on how many, and a reaper of the idle and the gone."""

import errno
import socket
from collections import Counter
from collections.abc import Callable

import structlog
import trio

from minikafka.broker.connections.connection import Connection
from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.transport import SCRATCH_SIZE_BYTES, SocketTransport
from minikafka.broker.settings.listeners import Listener

log = structlog.get_logger("minikafka.server")

BACKLOG = 1024
REAP_INTERVAL_S = 5.0
ACCEPT_PAUSE_S = 0.1


class Server:
    """Accepts and serves connections on all client listeners of a node.

    Args:
        dispatcher: Answers the frames.
        size_bytes_max: Of a request (`socket.request.max.bytes`).
        idle_ms_max: Silent connections are closed after it (`connections.max.idle.ms`), -1 for never.
        connections_max: In all (`max.connections`).
        connections_max_of: For a client's address (`max.connections.per.ip` and its overrides).
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        size_bytes_max: int,
        idle_ms_max: int,
        connections_max: int,
        connections_max_of: Callable[[str], int],
    ) -> None:
        self._dispatcher = dispatcher
        self._size_bytes_max = size_bytes_max
        self._idle_s_max = idle_ms_max / 1000 if idle_ms_max >= 0 else float("inf")
        self._connections_max = connections_max
        self._connections_max_of = connections_max_of
        self._connections: dict[Connection, None] = {}
        self._by_host: Counter[str] = Counter()
        self._scratch = memoryview(bytearray(SCRATCH_SIZE_BYTES))

    def listen(self, listener: Listener) -> socket.socket:
        """Bind a listener; port 0 takes a free one.

        Raises:
            OSError: The address is taken or not this machine's.
        """
        host = listener.host or None
        found = socket.getaddrinfo(
            host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)[0]
        raw = socket.socket(family, kind, protocol)
        try:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            raw.bind(address)
            raw.listen(BACKLOG)
        except OSError as error:
            raw.close()
            raise OSError(
                error.errno, f"cannot listen on {listener.host or '*'}:{listener.port}: {error.strerror}"
            ) from error
        raw.setblocking(False)
        return raw

    async def serve(self, raw: socket.socket, listener_name: str) -> None:
        """Accept on a bound socket until cancelled; then close it and every connection that it accepted."""
        async with trio.open_nursery() as nursery:
            try:
                while True:
                    accepted = await self._accept(raw)
                    if accepted is not None:
                        self._admit(nursery, accepted, listener_name)
            finally:
                raw.close()

    async def _accept(self, raw: socket.socket) -> socket.socket | None:
        try:
            return raw.accept()[0]
        except BlockingIOError:
            await trio.lowlevel.wait_readable(raw)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED):
                raise
            log.warning("a connection could not be accepted", reason=error.strerror)
            await trio.sleep(ACCEPT_PAUSE_S)
        return None

    def _admit(self, nursery: trio.Nursery, raw: socket.socket, listener_name: str) -> None:
        try:
            transport = SocketTransport(raw, self._scratch)
        except OSError:
            raw.close()  # it went away between being accepted and being looked at
            return
        host = transport.peer_host
        if len(self._connections) >= self._connections_max or self._by_host[host] >= self._connections_max_of(host):
            log.warning("too many connections", client=host, connections=len(self._connections))
            raw.close()
            return
        connection = Connection(
            transport, self._dispatcher, listener=listener_name, size_bytes_max=self._size_bytes_max
        )
        self._connections[connection] = None
        self._by_host[host] += 1
        nursery.start_soon(self._serve, connection, host)

    async def _serve(self, connection: Connection, host: str) -> None:
        try:
            await connection.serve()
        finally:
            del self._connections[connection]
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]

    async def reap(self) -> None:
        """Close connections on which nothing moved for too long, or whose client hung up while its fetch waits.

        As in Apache Kafka that includes clients which do not read their answers, and fetches that wait longer.
        """
        while True:
            await trio.sleep(REAP_INTERVAL_S)
            oldest = trio.current_time() - self._idle_s_max
            for connection in list(self._connections):
                gone = connection.busy and connection.transport.peer_is_gone()
                if gone or connection.last_active < oldest:
                    connection.scope.cancel()
