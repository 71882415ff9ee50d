"""`connections.max.idle.ms`: a connection on which nothing moves is closed; one whose client is slow is not."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing

from minikafka.broker.connections.connection import Connection
from minikafka.broker.connections.idle_connections import close_idle_connections
from minikafka.broker.connections.transport import SCRATCH_SIZE_BYTES, SocketTransport, StreamTransport

from .test_connection import ECHO, Echo, framed, read_frame

IDLE_MS = 30_000
SIZE_BYTES = 4 << 20
PART_BYTES = 256 << 10


@pytest.mark.parametrize("stops_after", [0, 7, None])
def test_a_large_request_that_arrives_slowly_is_answered(stops_after: int | None) -> None:
    """It takes 320 s; a client that stops in the middle is given up 30 s later."""
    request = framed(ECHO + bytes(SIZE_BYTES))
    parts = [request[at : at + PART_BYTES] for at in range(0, len(request), PART_BYTES)]

    async def main() -> float:
        ours, theirs = trio.testing.memory_stream_pair()
        transport = StreamTransport(theirs, "127.0.0.1", "127.0.0.1", 9092)
        connection = Connection(transport, Echo(), listener="PLAINTEXT", size_bytes_max=2 * SIZE_BYTES)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.serve)
            nursery.start_soon(close_idle_connections, [connection], IDLE_MS)
            for part in parts[:stops_after]:
                await trio.sleep(20)
                await ours.send_all(part)
            if stops_after is None:
                assert await read_frame(ours) == request[4:]
            else:
                assert await ours.receive_some() == b""
            nursery.cancel_scope.cancel()
        return trio.current_time() - began

    clock = trio.testing.MockClock(autojump_threshold=0)
    began = clock.current_time()
    took_s = trio.run(main, clock=clock)
    if stops_after is not None:
        assert IDLE_MS / 1000 < took_s - 20 * stops_after <= IDLE_MS / 1000 + 10


def test_a_response_that_is_taken_slowly_is_activity() -> None:
    """Over a real socket; the clock is virtual, and advances where both ends wait."""

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = await trio.open_tcp_stream("127.0.0.1", server.getsockname()[1])
            transport = SocketTransport(server.accept()[0], memoryview(bytearray(SCRATCH_SIZE_BYTES)))
        connection = Connection(transport, Echo(), listener="PLAINTEXT", size_bytes_max=SIZE_BYTES)
        async with client, trio.open_nursery() as nursery:
            nursery.start_soon(transport.send, [bytes(8 * SIZE_BYTES)])
            await trio.testing.wait_all_tasks_blocked(0.01)
            clock.jump(IDLE_MS / 1000 + 1)
            assert not connection.activity.is_idle(IDLE_MS / 1000), "its first bytes were sent since the last look"
            clock.jump(IDLE_MS / 1000 + 1)
            assert connection.activity.is_idle(IDLE_MS / 1000), "the client reads nothing"
            taken = 0
            while taken < 4 * SIZE_BYTES:
                taken += len(await client.receive_some(PART_BYTES))
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert not connection.activity.is_idle(IDLE_MS / 1000)
            nursery.cancel_scope.cancel()
        transport.close()

    clock = trio.testing.MockClock()
    trio.run(main, clock=clock)
