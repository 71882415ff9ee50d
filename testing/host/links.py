"""`Links`: which nodes of a cluster for tests can connect to which. Uses trio: it closes connections of event loops.

A link that is cut is refused, and its connections are closed, as by a firewall that rejects packets.
"""

from __future__ import annotations

import errno
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import trio

from minikafka.client.connections.seams import open_stream
from minikafka.client.connections.stream import Receiver, Stream
from minikafka.controller.quorum.peer_network import TcpNetwork

__all__ = ["Links", "NodeLinks"]

Link = tuple[int, int]
"""The id of the node that connects, and of the one that it connects to."""


class Links:
    """The links between the nodes of one cluster. Several threads use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cuts: Counter[Link] = Counter()
        self._node_at: dict[int, int] = {}
        self._closers: dict[Link, list[Callable[[], None]]] = {}

    def use(self, ports: dict[int, int]) -> None:
        """The nodes by their ports, from now on; no link is cut."""
        with self._lock:
            self._node_at = dict(ports)
            self._cuts.clear()
            self._closers.clear()

    def cut(self, links: Collection[Link]) -> None:
        """Cut links. One that is cut twice has to be mended twice."""
        with self._lock:
            self._cuts.update(links)
            closers = [close for link in links for close in self._closers.pop(link, ())]
        for close in closers:
            close()

    def mend(self, links: Collection[Link]) -> None:
        """Let nodes connect again."""
        with self._lock:
            self._cuts.subtract(links)

    def check(self, from_: int, port: int) -> None:
        """Raise OSError if the link to the node at a port is cut."""
        to = self._node_at.get(port, 0)
        with self._lock:
            if self._cuts[from_, to] > 0:
                raise OSError(errno.EHOSTUNREACH, f"node {from_} is cut off from node {to}")

    def opened(self, from_: int, port: int, close: Callable[[], None]) -> None:
        """A connection was opened; `close` closes it, from any thread, if it is still open."""
        with self._lock:
            self._closers.setdefault((from_, self._node_at.get(port, 0)), []).append(close)


class NodeLinks(TcpNetwork):
    """The network of one node: opens connections to others, unless the link is cut."""

    def __init__(self, node_id: int, links: Links) -> None:
        self._node_id = node_id
        self._links = links

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        """Connect to a controller. Raises OSError."""
        self._links.check(self._node_id, port)
        stream = await super().connect(host, port)
        assert isinstance(stream, trio.SocketStream)
        self._opened(port, stream.socket)
        return stream

    async def open_stream(self, host: str, port: int, receiver: Receiver, task_group: Any) -> Stream:
        """Connect to a broker. Raises OSError."""
        self._links.check(self._node_id, port)
        stream = await open_stream(host, port, receiver, task_group)
        self._opened(port, stream)
        return stream

    def _opened(self, port: int, closable: Any) -> None:
        token, known = trio.lowlevel.current_trio_token(), weakref.ref(closable)

        def close() -> None:
            if (still := known()) is not None:
                still.close()

        self._links.opened(self._node_id, port, lambda: _in_loop(token, close))


def _in_loop(token: trio.lowlevel.TrioToken, close: Callable[[], None]) -> None:
    with suppress(trio.RunFinishedError):
        token.run_sync_soon(close)
