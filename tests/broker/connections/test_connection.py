"""A connection on a stream in memory: order, coalescing, muting, fairness, and what ends it."""

import itertools
from collections.abc import Sequence

import pytest
import structlog
import trio
import trio.testing
from support import echoes
from support.echoes import (
    ECHO,
    FAILING,
    PARKED,
    WAITING,
    Connect,
    Echo,
    connected,
    connected_by_epoll,
    connected_by_tcp,
    connected_by_tls,
    framed,
    read_frame,
)

from minikafka.broker.connections import exchange as exchange_module
from minikafka.broker.connections.connection import Connection
from minikafka.broker.connections.long_polls import Parked, Receiver
from minikafka.broker.connections.ready_sockets import Turn
from minikafka.broker.connections.request_context import Answer, ConnectionInfo
from minikafka.controller.line_rate import LINES_MAX, LineRate
from minikafka.storage.waits import Begun

TIMEOUT_S = 30


class NarrowTransport:
    """A transport that takes 5 bytes without waiting, and the others once `writable` is set."""

    peer_host = local_host = "127.0.0.1"
    peer_port = 0
    local_port = 9092
    progress = 0
    handshake = None

    def __init__(self, requests: Sequence[bytes]) -> None:
        self._unread = [b"".join(map(framed, requests))]
        self.sent = b""
        self.writable = trio.Event()
        self.broken = False
        self._sending = False

    async def wait_while(self, turn: Turn) -> None:
        while self._unread:
            await trio.lowlevel.checkpoint()
            if not turn():
                return
        await trio.sleep_forever()

    def resume(self) -> None:
        """Nothing: the task sends."""

    def receive_now(self) -> memoryview:
        return memoryview(self._unread.pop())

    async def send(self, parts: Sequence[bytes]) -> None:
        left = self.send_now(parts)
        self._sending = True
        await self.writable.wait()
        self._sending = False
        if self.broken:
            raise ConnectionResetError
        self.sent += b"".join(left)

    def send_now(self, parts: Sequence[bytes]) -> Sequence[bytes]:
        assert not self._sending, "two tasks send"
        data, taken = b"".join(parts), 0 if self.sent else 5
        self.sent += data[:taken]
        return [data[taken:]]

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True, params=[[True], [False], [True, False], [False, True, True]])
def requests_answered_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "at_once", itertools.cycle(request.param))
    monkeypatch.setattr(exchange_module, "TURN_S", TIMEOUT_S)  # Also on a machine that stands still for some time.


BY = pytest.mark.parametrize("by", [connected, connected_by_tcp, connected_by_epoll, connected_by_tls])


@BY
def test_responses_have_the_order_of_the_requests(by: Connect) -> None:
    async def main() -> None:
        async with by() as (client, _, _):
            bodies = [ECHO + bytes([number]) for number in range(200)]
            await client.send_all(b"".join(map(framed, bodies)))
            assert [await read_frame(client) for _ in bodies] == bodies

    trio.run(main)


@BY
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


def test_requests_that_wait_briefly_are_not_begun_while_a_client_does_not_read() -> None:
    """Each would send what is ready, of which the kernel has not even taken the first."""
    requests = [WAITING, ECHO + b"abcdef", WAITING, ECHO, WAITING, WAITING]

    async def main() -> None:
        transport, echo = NarrowTransport(requests), Echo()
        echo.released.set()
        connection = Connection(transport, echo, listener="PLAINTEXT", size_bytes_max=1000)  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.serve)
            await trio.testing.wait_all_tasks_blocked()
            assert transport.sent == framed(WAITING)[:5]
            assert len(echo.seen) < len(requests)
            transport.writable.set()
            await trio.testing.wait_all_tasks_blocked()
            assert transport.sent == b"".join(map(framed, requests))
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_delivered_response_follows_what_the_kernel_did_not_take() -> None:
    async def main() -> None:
        Echo.at_once = itertools.cycle([True])
        transport, echo = NarrowTransport([ECHO + b"abcdef", PARKED]), Echo()
        connection = Connection(transport, echo, listener="PLAINTEXT", size_bytes_max=1000)  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.serve)
            await trio.testing.wait_all_tasks_blocked()
            assert transport.sent == framed(ECHO + b"abcdef")[:5]
            echo.receivers.pop().deliver([framed(b"delivered")])
            transport.writable.set()
            await trio.testing.wait_all_tasks_blocked()
            assert transport.sent == framed(ECHO + b"abcdef") + framed(b"delivered")
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


class Slow(Echo):
    """Each request takes a millisecond of the clock that it is given."""

    clock: trio.testing.MockClock

    def answer_now(
        self, frame: bytearray, connection: ConnectionInfo, receiver: Receiver | None
    ) -> Begun[Answer] | Parked:
        answer = super().answer_now(frame, connection, receiver)
        if isinstance(answer, tuple):
            self.clock.jump(0.001)
        return answer

    async def answer(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        self.clock.jump(0.001)
        return await super().answer(frame, connection)


def test_requests_that_arrive_together_leave_other_tasks_their_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are: by time, as some take longer than others."""
    monkeypatch.setattr(echoes, "Echo", Slow)
    monkeypatch.setattr(exchange_module, "TURN_S", 0.002)

    async def main() -> None:
        async with connected() as (client, echo, _):
            answered: list[int] = []
            await client.send_all(b"".join(framed(ECHO + bytes([number])) for number in range(40)))
            while len(echo.seen) < 40:
                answered.append(len(echo.seen))
                await trio.lowlevel.checkpoint()
            answered.append(len(echo.seen))
            assert max(after - before for before, after in itertools.pairwise(answered)) <= 2 * 3
            for number in range(40):
                assert await read_frame(client) == ECHO + bytes([number])

    Slow.clock = trio.testing.MockClock()
    trio.run(main, clock=Slow.clock)


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
            assert trio.current_time() - connection.activity.last_s < 0.5

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


@BY
def test_a_parked_request_is_answered_by_whoever_has_its_response(by: Connect) -> None:
    async def main() -> None:
        Echo.at_once = itertools.cycle([True])
        with trio.fail_after(TIMEOUT_S):
            async with by() as (client, echo, connection):
                for response in (b"one", b"another"):
                    await client.send_all(framed(ECHO) + framed(PARKED))
                    assert await read_frame(client) == ECHO
                    await trio.testing.wait_all_tasks_blocked()
                    assert connection.busy
                    echo.receivers.pop().deliver([framed(response)])
                    assert await read_frame(client) == response
                    assert not connection.busy

    trio.run(main)


@BY
@pytest.mark.parametrize("response", [b"one", bytes(1 << 20), None], ids=["small", "large", "from its task"])
def test_what_follows_a_parked_request_is_answered_after_it(by: Connect, response: bytes | None) -> None:
    async def main() -> None:
        with trio.fail_after(TIMEOUT_S):
            async with by() as (client, echo, _):
                await client.send_all(framed(PARKED))
                await trio.testing.wait_all_tasks_blocked()
                await client.send_all(framed(ECHO + b"a") + framed(ECHO + b"b"))
                await trio.testing.wait_all_tasks_blocked()
                assert not echo.seen
                echo.receivers.pop().deliver(None if response is None else [framed(response)])
                assert await read_frame(client) == (PARKED if response is None else response)
                assert await read_frame(client) == ECHO + b"a"
                assert await read_frame(client) == ECHO + b"b"

    trio.run(main)


@BY
def test_a_parked_request_is_withdrawn_with_its_connection(by: Connect) -> None:
    async def main() -> None:
        with trio.fail_after(TIMEOUT_S):
            async with by() as (client, echo, connection):
                await client.send_all(framed(PARKED))
                await trio.testing.wait_all_tasks_blocked()
                connection.scope.cancel()
                assert await client.receive_some(10) == b""
                assert not waits(echo, connection)

    trio.run(main)


@pytest.mark.parametrize("by", [connected_by_tcp, connected_by_epoll])
def test_a_client_that_disconnects_while_its_request_is_parked_is_noticed(by: Connect) -> None:
    async def main() -> None:
        with trio.fail_after(TIMEOUT_S):
            async with by() as (client, echo, connection):
                await client.send_all(framed(PARKED))
                await trio.testing.wait_all_tasks_blocked()
                await client.aclose()
                while waits(echo, connection):
                    await trio.sleep(0)

    trio.run(main)


def waits(echo: Echo, connection: Connection) -> bool:
    """Whether a request of key 4 waits."""
    joined = echo.polls.join(bytearray(PARKED), connection)
    if joined is not None:
        joined.withdraw()
    return joined is not None


@BY
def test_a_request_that_arrives_in_pieces_is_answered(by: Connect) -> None:
    async def main() -> None:
        with trio.fail_after(TIMEOUT_S):
            async with by() as (client, _, _):
                for number in range(3):
                    request = framed(ECHO + bytes([number]) * 100)
                    for cut in (2, 7, 40):
                        await client.send_all(request[:cut])
                        await trio.testing.wait_all_tasks_blocked()
                        await client.send_all(request[cut:])
                        assert framed(await read_frame(client)) == request

    trio.run(main)


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "No space left on device")])
def test_lines_about_what_a_node_lacks_are_bounded_and_have_no_trace(error: Exception) -> None:
    class Lacking(NarrowTransport):
        def receive_now(self) -> memoryview:
            raise error

    async def main() -> list[str]:
        lines = LineRate(lambda: 0)
        with structlog.testing.capture_logs() as logs:
            for _ in range(3 * LINES_MAX):
                connection = Connection(
                    Lacking([b"x"]), Echo(), listener="PLAINTEXT", size_bytes_max=1 << 20, lines=lines
                )
                await connection.serve()
        return [line["event"] for line in logs]

    assert trio.run(main) == ["connection closed"] * LINES_MAX
