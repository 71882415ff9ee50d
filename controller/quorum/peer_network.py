"""The network between nodes, which is injected: TCP in production, memory in tests. Trio: its streams and listeners."""

from collections.abc import Sequence
from typing import Protocol

import trio

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
        return await trio.open_tcp_stream(host, port)

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        try:
            return await trio.open_tcp_listeners(port, host=host or None)
        except OSError as error:
            raise OSError(error.errno, f"cannot listen on {host or '*'}:{port}: {error.strerror}") from error
