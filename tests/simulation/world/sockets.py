"""The sockets of a simulated machine, as the seams want them: of clients, between nodes, of listeners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from minikafka.broker.connections.ready_sockets import Turn
from minikafka.broker.connections.transport import Transport
from minikafka.broker.settings.listeners import Listener
from minikafka.client.connections.stream import Receiver, Stream
from minikafka.client.connections.trio_socket import SocketStream
from minikafka.storage.disks.disk import FileSlice
from simulation.world.machine import Machine
from simulation.world.network import BoundListener, Endpoint, SimulatedNetwork

READ_SIZE = 1 << 18
CLIENT_ACCEPT_PAUSE_S = 0.1


class Sockets:
    """The network as one machine sees it."""

    def __init__(self, network: SimulatedNetwork, machine: Machine) -> None:
        self._network, self._machine = network, machine

    # -- client connections (`System.open_stream`, `Seams.open_stream`) -------------------------------------------

    async def open_stream(self, host: str, port: int, receiver: Receiver, task_group: Any) -> Stream:
        """See `client.connections.stream.OpenStream`."""
        stream = SocketStream(await self._network.connect(self._machine, host, port), receiver, _Waits())
        task_group.start_soon(stream.run)
        return stream

    # -- client listeners (`System.listen`) ------------------------------------------------------------------------

    def listen_for_clients(self, listener: Listener) -> _Listening:
        """See `broker.connections.listening.Listen`."""
        return _Listening(self._network.listen(self._machine, listener.port))

    # -- between nodes (`System.peers`) ----------------------------------------------------------------------------

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        """See `controller.quorum.peer_network.Network`."""
        return _PeerStream(await self._network.connect(self._machine, host, port))

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        """See `controller.quorum.peer_network.Network`."""
        await trio.lowlevel.checkpoint()
        return [_PeerListener(self._network.listen(self._machine, port))]


class _Waits:
    """The waits for an endpoint; see `client.connections.trio_socket.Waits`."""

    async def wait_readable(self, endpoint: Endpoint, /) -> None:
        await endpoint.wait_readable()

    async def wait_writable(self, endpoint: Endpoint, /) -> None:
        await endpoint.wait_writable()

    def notify_closing(self, endpoint: Endpoint, /) -> None:
        """Nothing: an endpoint wakes its waiting tasks when it is closed."""


class _Transport:
    """A broker's connection with a client."""

    polls = None
    handshake = None
    peer_port = 0

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._is_waiting = False
        self.moved_bytes = 0
        self.peer_host = endpoint.peer_address[0]
        self.local_host, self.local_port = endpoint.address

    async def wait_while(self, turn: Turn) -> None:
        self._is_waiting = True
        await self._wait()
        while self._is_waiting and turn():
            await self._wait()

    def resume(self) -> None:
        self._is_waiting = False
        self._endpoint.wake_reader()

    def receive_now(self) -> memoryview:
        return memoryview(self._endpoint.receive(READ_SIZE))

    async def receive_into(self, target: memoryview) -> int:
        await self._wait()
        count = self._endpoint.recv_into(target)
        self.moved_bytes += count
        return count

    async def _wait(self) -> None:
        if self._endpoint.is_readable:
            await trio.lowlevel.checkpoint()
        else:
            await self._endpoint.wait_readable(once=True)

    async def send(self, parts: Sequence[bytes | FileSlice]) -> None:
        left = memoryview(b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts))
        while left:
            try:
                sent = self._endpoint.send(left)
                self.moved_bytes += sent
                left = left[sent:]
            except BlockingIOError:
                await self._endpoint.wait_writable()

    def send_now(self, parts: Sequence[bytes | FileSlice]) -> Sequence[bytes | FileSlice]:
        try:
            data = b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)
            sent = self._endpoint.send(data)
        except OSError:
            return list(parts)
        return [data[sent:]] if sent < len(data) else []

    def peer_is_gone(self) -> bool:
        return not self._endpoint.buffer and (self._endpoint.eof or self._endpoint.error is not None)

    def close(self) -> None:
        self._endpoint.close()


class _Listening:
    """A broker's listener for clients."""

    def __init__(self, bound: BoundListener) -> None:
        self._bound = bound
        self.address = bound.address

    async def run(self) -> None:
        await trio.sleep_forever()

    async def accept(self) -> Transport | None:
        try:
            return _Transport(await self._bound.accept())
        except OSError:
            await trio.sleep(CLIENT_ACCEPT_PAUSE_S)
            return None

    def close(self) -> None:
        self._bound.close()


class _PeerStream(trio.abc.Stream):
    """A connection between two nodes."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        left = memoryview(data)
        while left:
            try:
                left = left[self._endpoint.send(left) :]
            except BlockingIOError:
                await self._endpoint.wait_writable()
            except OSError as error:
                self._raise(error)

    async def wait_send_all_might_not_block(self) -> None:
        await self._endpoint.wait_writable()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._endpoint.is_readable:  # else waiting is a checkpoint
            await trio.lowlevel.checkpoint()
        while True:
            try:
                return self._endpoint.receive(max_bytes or READ_SIZE)
            except BlockingIOError:
                await self._endpoint.wait_readable()
            except OSError as error:
                self._raise(error)

    def _raise(self, error: OSError) -> None:
        if self._endpoint.closed:
            raise trio.ClosedResourceError from None
        raise trio.BrokenResourceError(str(error)) from error

    async def aclose(self) -> None:
        self._endpoint.close()
        await trio.lowlevel.checkpoint()


class _PeerListener(trio.abc.Listener[trio.abc.Stream]):
    """A listener for other nodes."""

    def __init__(self, bound: BoundListener) -> None:
        self._bound = bound

    async def accept(self) -> trio.abc.Stream:
        return _PeerStream(await self._bound.accept())

    async def aclose(self) -> None:
        self._bound.close()
        await trio.lowlevel.checkpoint()
