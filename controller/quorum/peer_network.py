"""The network between nodes, which is injected: TCP in production, memory in tests. Trio: its streams and listeners."""

import errno
from collections.abc import Sequence
from typing import Protocol

import trio

from minikafka.protocol.shortened import shortened

__all__ = ["Network", "TcpNetwork"]


class Network(Protocol):
    """Opens connections and listeners; both methods raise OSError."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream: ...

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        """Bound listeners. An empty host means every address, port 0 a free port."""
        ...


class TcpNetwork:
    """The operating system's TCP."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        try:
            return await trio.open_tcp_stream(host, port)
        except (ValueError, OverflowError) as error:  # no address at all; other nodes and requests may name any
            raise OSError(errno.EINVAL, f"{shortened(host)!r}:{port} is no address: {error}") from error

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        try:
            return await trio.open_tcp_listeners(port, host=host or None)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL and (listeners := await _listen_where_possible(host, port)):
                return listeners
            raise OSError(error.errno, f"cannot listen on {host or '*'}:{port}: {error.strerror}") from error


async def _listen_where_possible(host: str, port: int) -> list[trio.SocketListener]:
    """Listeners on those addresses of a name that this machine has; in a container `localhost` may have ::1 in the
    hosts file, without IPv6. Raises OSError for other failures, such as a port in use."""
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    listeners: list[trio.SocketListener] = []
    for address in dict.fromkeys(str(entry[4][0]) for entry in found):
        try:
            listeners += await trio.open_tcp_listeners(port, host=address)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                for one in listeners:
                    one.socket.close()
                raise
    return listeners
