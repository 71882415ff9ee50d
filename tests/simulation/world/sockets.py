"""The sockets of a simulated machine, as the seams want them: of clients, between nodes, of listeners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from minikafka.broker.connections.transport import Transport
from minikafka.broker.settings.listeners import Listener
from minikafka.client.connections.stream import Receiver, Stream
from minikafka.protocol.message import MalformedMessage
from minikafka.storage.disk import FileSlice
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
        stream = _ClientStream(await self._network.connect(self._machine, host, port), receiver)
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


class _ClientStream:
    """A client's connection: as `client/connections/trio_socket.py`, with an endpoint instead of a socket."""

    def __init__(self, endpoint: Endpoint, receiver: Receiver) -> None:
        self._endpoint = endpoint
        self._receiver = receiver
        self._out: list[memoryview] = []
        self._wake = trio.Event()
        self._scope = trio.CancelScope()
        self._why = "closed by the client"
        self._is_open = True

    def write(self, data: bytes) -> None:
        if not self._is_open:
            return
        left = memoryview(data)
        if not self._out:
            left = left[self._sent(left) :]
        if left:
            self._out.append(left)
            self._wake.set()

    def _sent(self, data: memoryview) -> int:
        try:
            return self._endpoint.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._why = str(error)
            self._scope.cancel()
            return len(data)

    def close(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    self._why = await self._read()
                    nursery.cancel_scope.cancel()
        finally:
            self._endpoint.close()
            self._is_open = False
            self._receiver.on_lost(self._why)

    async def _read(self) -> str:
        frames, on_frame = self._receiver.frames, self._receiver.on_frame
        try:
            while True:
                await self._endpoint.wait_readable()
                target = frames.target
                if target is None:
                    data = self._endpoint.receive(READ_SIZE)
                    for frame in frames.feed(memoryview(data)):
                        on_frame(frame)
                else:
                    with target:
                        data = self._endpoint.receive(len(target))
                        target[: len(data)] = data
                    whole = frames.received(len(data))
                    if whole is not None:
                        on_frame(whole)
                if not data:
                    return "the broker closed the connection"
        except MalformedMessage as error:
            return f"malformed response: {error}"
        except OSError as error:
            return str(error)

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            while self._out:
                await self._endpoint.wait_writable()
                self._out[0] = self._out[0][self._sent(self._out[0]) :]
                if not self._out[0]:
                    del self._out[0]
            self._wake = trio.Event()


class _Transport:
    """A broker's connection with a client."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.waits = 0
        self.peer_host = endpoint.peer_address[0]
        self.local_host, self.local_port = endpoint.address

    async def receive_some(self) -> memoryview:
        return memoryview(await self._receive(READ_SIZE))

    async def receive_into(self, target: memoryview) -> int:
        data = await self._receive(len(target))
        target[: len(data)] = data
        return len(data)

    async def _receive(self, size_max: int) -> bytes:
        while True:
            try:
                return self._endpoint.receive(size_max)
            except BlockingIOError:
                self.waits += 1
                await self._endpoint.wait_readable()

    async def send(self, parts: Sequence[bytes | FileSlice]) -> None:
        left = memoryview(b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts))
        while left:
            try:
                left = left[self._endpoint.send(left) :]
            except BlockingIOError:
                await self._endpoint.wait_writable()

    def peer_is_gone(self) -> bool:
        return not self._endpoint.buffer and (self._endpoint.eof or self._endpoint.error is not None)

    def close(self) -> None:
        self._endpoint.close()


class _Listening:
    """A broker's listener for clients."""

    def __init__(self, bound: BoundListener) -> None:
        self._bound = bound
        self.address = bound.address

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
