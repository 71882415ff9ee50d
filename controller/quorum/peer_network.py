"""The network among nodes as it is handed in: TCP in production, memory in simulation."""

from collections.abc import Sequence
from typing import Protocol

import trio

__all__ = ["Network", "TcpNetwork"]


class Network(Protocol):
    """Opens connections and listeners; both raise OSError."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream: ...

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        """Bound; an empty host is every address, port 0 a free one."""
        ...


class TcpNetwork:
    """The operating system's."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        return await trio.open_tcp_stream(host, port)

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        try:
            return await trio.open_tcp_listeners(port, host=host or None)
        except OSError as error:
            raise OSError(error.errno, f"cannot listen on {host or '*'}:{port}: {error.strerror}") from error
