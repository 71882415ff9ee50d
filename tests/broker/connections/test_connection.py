"""A connection on a stream in memory: order, coalescing, muting, fairness, and what ends it."""

import itertools
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio
import trio.testing

from minikafka.broker.connections.connection import Connection
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect
from minikafka.broker.connections.transport import SCRATCH_SIZE_BYTES, SocketTransport, StreamTransport, Transport

WAITING, ECHO, FAILING = b"\x00\x01", b"\x00\x02", b"\x00\x03"
TIMEOUT_S = 30


class SaturatedTransport:
    """A transport whose client has always sent the next request already; optionally, each read waits."""

    peer_host = local_host = "127.0.0.1"
    local_port = 9092

    def __init__(self, requests: int, *, waits_each: bool) -> None:
        self.left = requests
        self.waits = 0
        self._waits_each = waits_each

    async def receive_some(self) -> memoryview:
        if self._waits_each:
            self.waits += 1
            await trio.lowlevel.checkpoint()
        self.left -= 1
        return memoryview(framed(ECHO) if self.left >= 0 else b"")

    async def send(self, parts: Sequence[bytes]) -> None:
        pass

    def send_now(self, parts: Sequence[bytes]) -> Sequence[bytes]:
        return []

    def close(self) -> None:
        pass


class NarrowTransport:
    """A transport that takes 5 bytes without waiting, and the others once `writable` is set."""

    peer_host = local_host = "127.0.0.1"
    local_port = 9092
    waits = 0

    def __init__(self, requests: Sequence[bytes]) -> None:
        self._unread = [b"".join(map(framed, requests))]
        self.sent = b""
        self.writable = trio.Event()
        self.broken = False
        self._sending = False

    async def receive_some(self) -> memoryview:
        if not self._unread:
            await trio.sleep_forever()
        return memoryview(self._unread.pop())

    async def send(self, parts: Sequence[bytes]) -> None:
        assert not self._sending, "two tasks send"
        self._sending = True
        await self.writable.wait()
        self._sending = False
        if self.broken:
            raise ConnectionResetError
        self.sent += b"".join(parts)

    def send_now(self, parts: Sequence[bytes]) -> Sequence[bytes]:
        data = b"".join(parts)
        self.sent += data[:5]
        return [data[5:]]

    def close(self) -> None:
        pass


class TaskSteps(trio.abc.Instrument):
    """Counts how often each task was scheduled."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.of[task.name] += 1


class Echo:
    """Echoes frames; frames of key 1 wait for `released`, frames of key 3 disconnect."""

    def __init__(self) -> None:
        self.released = trio.Event()
        self.seen: list[bytes] = []
        self.throttle_ms = 0

    async def answer(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
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


def test_responses_have_the_order_of_the_requests() -> None:
    async def main() -> None:
        async with connected() as (client, _, _):
            bodies = [ECHO + bytes([number]) for number in range(200)]
            await client.send_all(b"".join(map(framed, bodies)))
            assert [await read_frame(client) for _ in bodies] == bodies

    trio.run(main)


@pytest.mark.parametrize("by", [connected, connected_by_tcp])
def test_a_waiting_request_does_not_hold_back_earlier_responses(by: Connect) -> None:
    async def main() -> None:
        with trio.fail_after(TIMEOUT_S):
            async with by() as (client, echo, connection):
                first, second, waiting, last = ECHO + b"a", ECHO + b"b", WAITING + b"c", ECHO + b"d"
                await client.send_all(b"".join(map(framed, (first, second, waiting, last))))
                assert await read_frame(client) == first
                assert await read_frame(client) == second
                await trio.testing.wait_all_tasks_blocked()
                assert echo.seen == [first, second, waiting], (
                    "the next request was handled before the last was answered"
                )
                assert connection.busy
                echo.released.set()
                assert await read_frame(client) == waiting
                assert await read_frame(client) == last

    trio.run(main)


@pytest.mark.parametrize("writable_first", [True, False])
def test_what_the_kernel_does_not_take_is_sent_while_a_later_request_waits(writable_first: bool) -> None:
    async def main() -> None:
        transport, echo = NarrowTransport([ECHO + b"abcdef", WAITING, ECHO]), Echo()
        connection = Connection(transport, echo, listener="PLAINTEXT", size_bytes_max=1000)  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.serve)
            await trio.testing.wait_all_tasks_blocked()
            assert transport.sent == framed(ECHO + b"abcdef")[:5]
            for event in (transport.writable, echo.released)[:: 1 if writable_first else -1]:
                event.set()
                await trio.testing.wait_all_tasks_blocked()
                if event is transport.writable and writable_first:
                    assert transport.sent == framed(ECHO + b"abcdef")
            assert transport.sent == framed(ECHO + b"abcdef") + framed(WAITING) + framed(ECHO)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_connection_that_breaks_while_a_request_waits_is_closed() -> None:
    async def main() -> None:
        transport, echo = NarrowTransport([ECHO, WAITING]), Echo()
        connection = Connection(transport, echo, listener="PLAINTEXT", size_bytes_max=1000)  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.serve)
            await trio.testing.wait_all_tasks_blocked()
            transport.broken = True
            transport.writable.set()
        assert not echo.released.is_set()

    trio.run(main)


@pytest.mark.parametrize("bad", [b"\xff\xff\xff\xff", (1001).to_bytes(4, "big"), b"\0\0\0\2\0\3"])
def test_requests_before_a_malformed_one_are_answered(bad: bytes) -> None:
    async def main() -> None:
        async with connected() as (client, _, _):
            await client.send_all(framed(ECHO + b"a") + framed(ECHO + b"b") + bad)
            assert await read_frame(client) == ECHO + b"a"
            assert await read_frame(client) == ECHO + b"b"
            assert await client.receive_some(10) == b""

    trio.run(main)


def test_a_throttled_connection_is_muted_after_its_response() -> None:
    """KIP-219: the response is sent at once; the next request, though received, is answered after the throttle time."""

    async def main() -> None:
        async with connected() as (client, echo, connection):
            echo.throttle_ms = 1500
            await client.send_all(framed(ECHO + b"a") + framed(ECHO + b"b"))
            assert await read_frame(client) == ECHO + b"a"
            assert trio.current_time() == began
            await trio.testing.wait_all_tasks_blocked()
            assert echo.seen == [ECHO + b"a"]
            assert connection.busy
            echo.throttle_ms = 0
            assert await read_frame(client) == ECHO + b"b"
            assert trio.current_time() == pytest.approx(began + 1.5)

    clock = trio.testing.MockClock(autojump_threshold=0.01)
    began = clock.current_time()
    trio.run(main, clock=clock)


def test_a_muted_connection_reads_nothing() -> None:
    async def main() -> None:
        async with connected() as (client, echo, _):
            echo.throttle_ms = 1000
            await client.send_all(framed(ECHO + b"a"))
            await read_frame(client)
            await client.send_all(framed(ECHO + b"b"))
            await trio.sleep(0.999)
            assert len(echo.seen) == 1
            await trio.sleep(0.002)
            assert len(echo.seen) == 2

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.01))


def test_a_throttled_connection_was_active_when_its_response_was_sent() -> None:
    """Or a handler that waited, and then the throttle time, would make it look idle."""

    async def main() -> None:
        async with connected() as (client, echo, connection):
            echo.throttle_ms = 1000
            await client.send_all(framed(WAITING + b"a"))
            await trio.sleep(5)
            echo.released.set()
            await read_frame(client)
            assert connection.busy
            assert trio.current_time() - connection.last_active < 0.5

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.01))


def test_a_malformed_frame_ends_the_connection() -> None:
    async def main() -> None:
        for bad in (framed(FAILING), (1001).to_bytes(4, "big"), b"\xff\xff\xff\xff"):
            async with connected() as (client, _, _):
                await client.send_all(bad)
                assert await client.receive_some(10) == b""

    trio.run(main)


def test_a_client_may_disconnect_in_the_middle_of_a_frame() -> None:
    async def main() -> None:
        async with connected() as (client, echo, connection):
            await client.send_all(framed(ECHO * 10)[:7])
            await client.aclose()
            await trio.testing.wait_all_tasks_blocked()
            assert echo.seen == []
            assert not connection.busy

    trio.run(main)


@pytest.mark.parametrize(("waits_each", "turns"), [(False, range(33, 51)), (True, range(101, 103))])
def test_other_connections_get_their_turn(waits_each: bool, turns: range) -> None:
    """100 requests of a millisecond or more: a checkpoint every two milliseconds, none where reads wait anyway."""

    async def main() -> None:
        times = itertools.count(0, 0.0005)
        connection = Connection(
            SaturatedTransport(100, waits_each=waits_each),  # type: ignore[arg-type]
            Echo(),
            listener="PLAINTEXT",
            size_bytes_max=1000,
            current_time=lambda: next(times),
        )
        await connection.serve()

    steps = TaskSteps()
    trio.run(main, instruments=[steps])
    (count,) = (count for name, count in steps.of.items() if name.endswith("main"))
    assert count in turns
