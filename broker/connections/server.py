"""Listening sockets: binds them, accepts connections, and enforces the limits on their number."""

import errno
import socket
from collections import Counter
from collections.abc import Callable

import structlog
import trio

from minikafka.broker.connections.connection import Connection, FrameHandler
from minikafka.broker.connections.transport import SCRATCH_SIZE_BYTES, SocketTransport
from minikafka.broker.settings.listeners import Listener

log = structlog.get_logger("minikafka.server")

BACKLOG = 1024
ACCEPT_PAUSE_S = 0.1


class Server:
    """Accepts and serves connections on all client listeners of a node.

    Args:
        handler: Answers the requests.
        size_bytes_max: The largest request (`socket.request.max.bytes`).
        connections_max: The most connections (`max.connections`).
        connections_max_of: The most connections from one client address (`max.connections.per.ip` and overrides).

    Attributes:
        connections: The open connections, oldest first.
    """

    def __init__(
        self,
        handler: FrameHandler,
        *,
        size_bytes_max: int,
        connections_max: int,
        connections_max_of: Callable[[str], int],
    ) -> None:
        self._handler = handler
        self._size_bytes_max = size_bytes_max
        self._connections_max = connections_max
        self._connections_max_of = connections_max_of
        self.connections: dict[Connection, None] = {}
        self._by_host: Counter[str] = Counter()
        self._scratch = memoryview(bytearray(SCRATCH_SIZE_BYTES))

    def listen(self, listener: Listener) -> socket.socket:
        """Bind a listener; port 0 takes a free port.

        Raises:
            OSError: The address is in use, or not an address of this machine.
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
        """Accept connections until cancelled; then close the socket and the connections that it accepted."""
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
            log.warning("accept failed", reason=error.strerror)
            await trio.sleep(ACCEPT_PAUSE_S)
        return None

    def _admit(self, nursery: trio.Nursery, raw: socket.socket, listener_name: str) -> None:
        try:
            transport = SocketTransport(raw, self._scratch)
        except OSError:
            raw.close()  # the client disconnected right after the accept
            return
        host = transport.peer_host
        if len(self.connections) >= self._connections_max or self._by_host[host] >= self._connections_max_of(host):
            log.warning("connection refused: too many connections", client=host, connections=len(self.connections))
            raw.close()
            return
        connection = Connection(
            transport, self._handler, listener=listener_name, size_bytes_max=self._size_bytes_max
        )
        self.connections[connection] = None
        self._by_host[host] += 1
        nursery.start_soon(self._serve, connection, host)

    async def _serve(self, connection: Connection, host: str) -> None:
        try:
            await connection.serve()
        finally:
            del self.connections[connection]
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]
