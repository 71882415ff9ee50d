"""What was received is freed as soon as its request ends, however it ends: neither a cycle of objects keeps it, nor a
connection that has ended, which a task that waits may still have in a variable.

Python frees a cycle only when its collector visits it, which in a node may be never. Typical is an exception that is
kept where one of the frames of its traceback finds it.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing

from minikafka.broker.connections.connection import Connection
from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.large_messages import LargeMessages
from minikafka.broker.connections.ready_sockets import ReadySockets
from minikafka.broker.connections.request_context import ConnectionInfo, Disconnect
from minikafka.broker.connections.request_times import RequestTimes
from minikafka.broker.connections.routes import routes_of
from minikafka.broker.connections.transport import SCRATCH_SIZE_BYTES, SocketTransport, StreamTransport
from minikafka.protocol.errors import InvalidRequestError
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from minikafka.storage.disks.disk import RealDisk

TIMEOUT_S = 5
ONE_READ, SEVERAL_READS, IN_A_THREAD = 100_000, 600_000, 2_000_000
KEPT = 50_000
"""Buffers of this size are looked for: everything else here is smaller."""
LONG_AGO = InvalidRequestError("raised long ago, and kept since")


def join_group(size_bytes: int, count: int = 1) -> bytes:
    """A JoinGroup, with its size."""
    protocols = [JoinGroupRequestProtocol(name="p", metadata=bytes(size_bytes // count)) for _ in range(count)]
    message = JoinGroupRequest(
        group_id="g", session_timeout_ms=1, member_id="", protocol_type="c", protocols=protocols
    )
    return encode_request(message, 0, 7, "me")


def cut(whole: bytes) -> bytes:
    """A frame whose message ends too early."""
    return (len(whole) - 7).to_bytes(4, "big") + whole[4:-3]


class Handlers:
    """Handlers of JoinGroup, by name, that end in one way each."""

    def __init__(self) -> None:
        self.kept: list[BaseException] = []
        self.disk = RealDisk()

    async def answers(self, request: Any, context: Any) -> Any:
        return JoinGroupResponse(protocol_name="", leader="", member_id="")

    async def refuses(self, request: Any, context: Any) -> Any:
        await trio.lowlevel.checkpoint()
        raise InvalidRequestError("refused")

    async def fails(self, request: Any, context: Any) -> Any:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    async def disconnects(self, request: Any, context: Any) -> Any:
        raise Disconnect("asked to")

    async def waits(self, request: Any, context: Any) -> Any:
        await trio.sleep_forever()

    async def fails_in_a_thread(self, request: Any, context: Any) -> Any:
        await self.disk.run(int, "no number")

    async def keeps_the_reason(self, request: Any, context: Any) -> Any:
        """As code does that tells others why it failed; they are gone meanwhile."""
        reasons: list[Exception] = []
        try:
            await self.refuses(request, context)
        except InvalidRequestError as error:
            reasons.append(error)
        raise reasons[0]

    async def repeats_a_reason(self, request: Any, context: Any) -> Any:
        """As a log that is offline does."""
        raise LONG_AGO


@pytest.fixture(scope="module", autouse=True)
def what_there_is_already() -> Iterator[None]:
    """The collector leaves out the modules and other tests' objects, which would take it a second each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Fails if a buffer of the size of a request is garbage that only the collector would free."""
    gc.collect()
    flags, threshold = gc.get_debug(), gc.get_threshold()
    gc.set_threshold(0)
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        with structlog.testing.capture_logs():
            yield
        gc.collect()
        kept = [(type(one), part) for one in gc.garbage for part in gc.get_referents(one) if is_large(part)]
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.set_threshold(*threshold)
    assert not kept, [f"{len(part)} bytes kept by a {owner.__name__}" for owner, part in kept]
    assert not [part for part in gc.get_referents(LONG_AGO) if part is LONG_AGO.__traceback__ is not None]


def is_large(part: object) -> bool:
    return isinstance(part, bytes | bytearray) and len(part) >= KEPT


def held_by(connection: Connection) -> list[tuple[str, int]]:
    """The large buffers of a connection, its exchange and its stopwatch, by the attribute that has them."""
    exchange = connection._exchange
    values = [*vars(connection).items(), *vars(exchange).items(), ("reader", exchange._reader)]
    values += [] if exchange._stopwatch is None else vars(exchange._stopwatch).items()
    return [(name, len(part)) for name, value in values for part in (value, *gc.get_referents(value)) if is_large(part)]


Client = Callable[[trio.abc.Stream, Connection], Awaitable[None]]


async def until_it_ends(stream: trio.abc.Stream, connection: Connection) -> None:
    """The client reads until the node has answered or closes the connection."""
    with suppress(trio.BrokenResourceError):
        await stream.receive_some(1000)


async def leaves(stream: trio.abc.Stream, connection: Connection) -> None:
    """The client is gone once the node does no more, which sees it when it looks for such clients."""
    await trio.testing.wait_all_tasks_blocked(0.01)
    await stream.aclose()
    await trio.testing.wait_all_tasks_blocked(0.01)
    connection.scope.cancel()


async def is_cancelled(stream: trio.abc.Stream, connection: Connection) -> None:
    """As when it is idle, or when the node ends."""
    await trio.testing.wait_all_tasks_blocked(0.01)
    connection.scope.cancel()
    await until_it_ends(stream, connection)


async def serve(handler: str, data: bytes, client: Client, *, by_epoll: bool) -> None:
    """One connection of one request, from its beginning to its end."""
    handlers = Handlers()
    api = SimpleNamespace(REQUEST=JoinGroupRequest, VERSIONS="0", handle=getattr(handlers, handler))
    large = LargeMessages(handlers.disk.run)
    dispatcher = Dispatcher(None, routes_of([api]), clock=trio.current_time, large_messages=large)
    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            ready = ReadySockets() if by_epoll else None
            if ready is not None:
                nursery.start_soon(ready.run)
            ours, transport = await connected(ready)
            times = RequestTimes(trio.current_time) if by_epoll else None
            connection = Connection(transport, dispatcher, listener="L", size_bytes_max=10**8, times=times)
            async with trio.open_nursery() as serving:
                serving.start_soon(connection.serve)
                async with ours:
                    serving.start_soon(send, ours, data)
                    await client(ours, connection)
            nursery.cancel_scope.cancel()
            assert not held_by(connection)


async def send(stream: trio.abc.Stream, data: bytes) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await stream.send_all(data)


async def connected(ready: ReadySockets | None) -> tuple[trio.abc.Stream, Any]:
    if ready is None:
        ours, theirs = trio.testing.memory_stream_pair()
        return ours, StreamTransport(theirs, "127.0.0.1", "127.0.0.1", 9092)
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.getsockname()[1])
        return stream, SocketTransport(server.accept()[0], memoryview(bytearray(SCRATCH_SIZE_BYTES)), ready)


SIZES = pytest.mark.parametrize("size_bytes", [ONE_READ, SEVERAL_READS, IN_A_THREAD])
BY_EPOLL = pytest.mark.parametrize("by_epoll", [True, False])
CLIENTS = pytest.mark.parametrize("client", [until_it_ends, leaves, is_cancelled])
HANDLERS = [name for name in vars(Handlers) if not name.startswith("_")]


@pytest.mark.slow
@SIZES
@BY_EPOLL
@CLIENTS
@pytest.mark.parametrize("handler", HANDLERS)
def test_a_request_is_freed_however_its_handler_ends(
    handler: str, size_bytes: int, by_epoll: bool, client: Client
) -> None:
    if handler == "waits" and client is until_it_ends:
        pytest.skip("it does not end")
    with nothing_kept():
        trio.run(partial_serve(handler, join_group(size_bytes), client, by_epoll))


@pytest.mark.parametrize("size_bytes", [10, ONE_READ])
def test_a_reason_that_is_repeated_keeps_no_frames_of_small_requests_either(size_bytes: int) -> None:
    """Each time that an exception is raised adds frames to its traceback."""
    api = SimpleNamespace(REQUEST=JoinGroupRequest, VERSIONS="0", handle=Handlers().repeats_a_reason)
    dispatcher = Dispatcher(None, routes_of([api]), clock=lambda: 0.0, large_messages=LargeMessages(RealDisk().run))

    async def main() -> None:
        parts, _ = await dispatcher.answer(bytearray(join_group(size_bytes)[4:]), ConnectionInfo("L", "10.0.0.1"))
        assert parts

    trio.run(main)
    assert LONG_AGO.__traceback__ is None


@pytest.mark.slow
@SIZES
@BY_EPOLL
@pytest.mark.parametrize("break_", [cut, lambda whole: whole + b"\xff" * 4, lambda whole: b"\0" * 4 + whole])
def test_a_malformed_request_is_freed(break_: Callable[[bytes], bytes], size_bytes: int, by_epoll: bool) -> None:
    with nothing_kept():
        trio.run(partial_serve("answers", break_(join_group(size_bytes)), until_it_ends, by_epoll))


@pytest.mark.slow
@SIZES
@BY_EPOLL
@pytest.mark.parametrize("client", [leaves, is_cancelled])
def test_a_part_of_a_request_is_freed(client: Client, size_bytes: int, by_epoll: bool) -> None:
    with nothing_kept():
        trio.run(partial_serve("answers", join_group(size_bytes)[:-1], client, by_epoll))


@pytest.mark.slow
@BY_EPOLL
def test_a_request_of_too_many_elements_is_freed(by_epoll: bool) -> None:
    with nothing_kept():
        trio.run(partial_serve("answers", join_group(600_000, 50_000), until_it_ends, by_epoll))


def partial_serve(handler: str, data: bytes, client: Client, by_epoll: bool) -> Callable[[], Awaitable[None]]:
    async def main() -> None:
        await serve(handler, data, client, by_epoll=by_epoll)

    return main
