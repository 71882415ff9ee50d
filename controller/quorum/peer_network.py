"""The network between nodes, which is injected: TCP in production, memory in tests. Trio: its streams and listeners."""

import errno
from collections.abc import Sequence
from typing import Protocol

import trio

from minikafka.controller.quorum.listening_sockets import listening_sockets
from minikafka.protocol.addresses import host_of
from minikafka.protocol.shortened import shortened

__all__ = ["Network", "TcpNetwork", "peer_host"]


class Network(Protocol):
    """Opens connections and listeners; both methods raise OSError."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream: ...

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        """Open listeners, already bound. An empty host means every address, port 0 a free port."""
        ...


CONNECT_TIMEOUT_S = 10.0


class TcpNetwork:
    """The operating system's TCP. To connect takes ten seconds at most; then trio.TooSlowError is raised."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        try:
            with trio.fail_after(CONNECT_TIMEOUT_S):
                return await trio.open_tcp_stream(host, port)
        except (ValueError, OverflowError) as error:  # an invalid address: other nodes and requests may name any text
            raise OSError(errno.EINVAL, f"{shortened(host)!r}:{port} is no address: {error}") from error
        except RuntimeError as error:  # No thread can be started that looks up the name.
            raise OSError(errno.EAGAIN, str(error)) from error

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        return [trio.SocketListener(trio.socket.from_stdlib_socket(one)) for one in listening_sockets(host, port)]


def peer_host(stream: trio.abc.Stream) -> str:
    """The IP address of the other end, as Java writes it; "" if the stream is not a TCP stream, or has ended."""
    stream = getattr(stream, "stream", stream)  # of TLS
    if not isinstance(stream, trio.SocketStream):
        return ""
    try:
        return host_of(stream.socket.getpeername())
    except OSError:
        return ""
