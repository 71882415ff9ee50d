"""A network between nodes in memory, with connections that can be reset or partitioned.

    network = MemoryNetwork()
    network.of(1), network.of(2)        the `Network` of each node; node 2 listens at ("node-2", any port)
    network.cut(1, 2)                   messages are lost, connections stay open
    network.heal()                      new connections work; the old ones stay dead
    network.kill(2)                     its listeners and connections are closed, which the others notice
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import trio
import trio.testing


class Wire(trio.abc.Stream):
    """One end of a connection between two nodes."""

    def __init__(self, network: MemoryNetwork, ends: frozenset[int], inner: trio.abc.Stream) -> None:
        self._network, self.ends, self._inner = network, ends, inner
        self.dead = False

    def _is_cut(self) -> bool:
        self.dead = self.dead or self.ends in self._network.cuts
        return self.dead

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_cut():
            await trio.lowlevel.checkpoint()
            return
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._inner.receive_some(max_bytes)
        if self._is_cut():
            await trio.sleep_forever()
        return data

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Listener(trio.abc.Listener[trio.abc.Stream]):
    def __init__(self) -> None:
        self.send, self._receive = trio.open_memory_channel[trio.abc.Stream](math.inf)

    async def accept(self) -> trio.abc.Stream:
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            raise trio.ClosedResourceError from None

    async def aclose(self) -> None:
        await self._receive.aclose()


class NodeNetwork:
    """The `Network` of one node."""

    def __init__(self, network: MemoryNetwork, node_id: int) -> None:
        self._network, self._node_id = network, node_id

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        other = int(host.removeprefix("node-"))
        ends = frozenset({self._node_id, other})
        if ends in self._network.cuts:
            await trio.sleep_forever()
        await trio.sleep(self._network.latency_s)
        listener = self._network.listeners.get(other)
        if listener is None:
            raise ConnectionRefusedError(f"no listener at {host}:{port}")
        here, there = trio.testing.memory_stream_pair()
        wires = [Wire(self._network, ends, here), Wire(self._network, ends, there)]
        self._network.wires += wires
        try:
            listener.send.send_nowait(wires[1])
        except trio.BrokenResourceError:
            raise ConnectionRefusedError(f"no listener at {host}:{port}") from None
        return wires[0]

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        listener = self._network.listeners[self._node_id] = _Listener()
        return [listener]


class MemoryNetwork:
    """See above."""

    def __init__(self, latency_s: float = 0.001) -> None:
        self.latency_s = latency_s
        self.listeners: dict[int, _Listener] = {}
        self.wires: list[Wire] = []
        self.cuts: set[frozenset[int]] = set()

    def of(self, node_id: int) -> NodeNetwork:
        return NodeNetwork(self, node_id)

    def cut(self, *pairs: tuple[int, int]) -> None:
        """Partition these pairs of nodes."""
        self.cuts |= {frozenset(pair) for pair in pairs}
        for wire in self.wires:
            wire._is_cut()

    def isolate(self, node_id: int) -> None:
        """Partition a node from all others that listen."""
        self.cut(*((node_id, other) for other in self.listeners if other != node_id))

    def heal(self) -> None:
        """New connections work again."""
        self.cuts.clear()
