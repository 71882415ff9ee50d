"""Connections of one client each whose requests are echoed: in memory, by TCP, and by TLS."""

import itertools
import math
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio
import trio.testing

from minikafka.broker.connections.connection import Connection
from minikafka.broker.connections.long_polls import LongPoll, LongPolls, Parked, Receiver
from minikafka.broker.connections.ready_sockets import ReadySockets
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect
from minikafka.broker.connections.tls_transport import Handshakes, TlsTransport
from minikafka.broker.connections.transport import SCRATCH_SIZE_BYTES, SocketTransport, StreamTransport, Transport
from minikafka.storage.waits import Begun, begin, in_task
from support.tls import TestTls, client_of

WAITING, ECHO, FAILING, PARKED = b"\x00\x01", b"\x00\x02", b"\x00\x03", b"\x00\x04"
NEVER = LongPoll([], 1, math.inf, lambda in_time: None, lambda times: None)


class Echo:
    """Echoes frames; frames of key 1 wait for `released`, frames of key 3 disconnect.

    Frames of key 4 are parked where they may be: their responses are what the test delivers. `at_once` gives for each
    request in turn whether it is answered at once, unless it waits.
    """

    at_once = itertools.cycle([True])

    def __init__(self) -> None:
        self.receivers: list[Receiver] = []
        self.polls = LongPolls()
        self.released = trio.Event()
        self.seen: list[bytes] = []
        self.throttle_ms = 0

    def answer_now(
        self, frame: bytearray, connection: ConnectionInfo, receiver: Receiver | None
    ) -> Begun[Answer] | Parked:
        if bytes(frame[:2]) == PARKED and receiver is not None:
            self.receivers.append(receiver)
            return self.polls.park(frame, receiver, NEVER, list)
        if bytes(frame[:2]) == WAITING or not next(self.at_once):
            return begin(self.answer(frame, connection))
        self.seen.append(bytes(frame))
        if bytes(frame[:2]) == FAILING:
            raise Disconnect("asked to")
        return [framed(bytes(frame))], self.throttle_ms

    async def answer(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        await in_task()
        self.seen.append(bytes(frame))
        if bytes(frame[:2]) == WAITING:
            await self.released.wait()
        if bytes(frame[:2]) == FAILING:
            raise Disconnect("asked to")
        return [framed(bytes(frame))], self.throttle_ms


Client = tuple[trio.abc.Stream, Echo, Connection]
Connect = Callable[[], AbstractAsyncContextManager[Client]]


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@asynccontextmanager
async def connected() -> AsyncIterator[Client]:
    """A client connected by a stream in memory."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with serving(ours, StreamTransport(theirs, "127.0.0.1", "127.0.0.1", 9092)) as client:
        yield client


@asynccontextmanager
async def connected_by_tcp() -> AsyncIterator[Client]:
    """A client connected by a socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = await trio.open_tcp_stream("127.0.0.1", server.getsockname()[1])
        transport = SocketTransport(server.accept()[0], memoryview(bytearray(SCRATCH_SIZE_BYTES)))
        async with ours, serving(ours, transport) as client:
            yield client


@asynccontextmanager
async def connected_by_epoll() -> AsyncIterator[Client]:
    """A client connected by a socket, which is watched together with others."""
    ready = ReadySockets()
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = await trio.open_tcp_stream("127.0.0.1", server.getsockname()[1])
        transport = SocketTransport(server.accept()[0], memoryview(bytearray(SCRATCH_SIZE_BYTES)), ready)
        async with ours, trio.open_nursery() as nursery:
            nursery.start_soon(ready.run)
            async with serving(ours, transport) as client:
                yield client
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def connected_by_tls() -> AsyncIterator[Client]:
    """A client connected by a socket with TLS, which is watched together with others."""
    ready = ReadySockets()
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = await trio.open_tcp_stream("127.0.0.1", server.getsockname()[1])
        inner = SocketTransport(server.accept()[0], memoryview(bytearray(SCRATCH_SIZE_BYTES)), ready)
        secured = trio.SSLStream(ours, client_of("CN=carol"), server_hostname="localhost")
        async with ours, trio.open_nursery() as nursery:
            nursery.start_soon(ready.run)
            async with serving(secured, TlsTransport(inner, Handshakes(TestTls()))) as client:
                yield client
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def serving(ours: trio.abc.Stream, transport: Transport) -> AsyncIterator[Client]:
    echo = Echo()
    connection = Connection(transport, echo, listener="PLAINTEXT", size_bytes_max=1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        yield ours, echo, connection
        nursery.cancel_scope.cancel()


async def read_frame(stream: trio.abc.Stream) -> bytes:
    return await read_exactly(stream, int.from_bytes(await read_exactly(stream, 4), "big"))


async def read_exactly(stream: trio.abc.Stream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = await stream.receive_some(size - len(data))
        assert piece, "the connection ended"
        data += piece
    return data
