"""The budget of request bytes in memory: who is admitted when, and what connections hold of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from minikafka.broker.connections.connection import LONG_POLLS, Connection
from minikafka.broker.connections.long_polls import Receiver
from minikafka.broker.connections.request_context import Answer, ConnectionInfo
from minikafka.broker.connections.request_memory import RequestMemory
from minikafka.broker.connections.transport import StreamTransport

PRODUCE, FETCH = b"\x00\x00", LONG_POLLS[0]
MIB = 1 << 20


def run(main: Callable[[], Awaitable[None]]) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.0))


def test_requests_are_admitted_in_order_while_there_is_any_room() -> None:
    memory, admitted = RequestMemory(100), list[int]()

    async def ask(size_bytes: int) -> None:
        await memory.reserve(size_bytes)
        admitted.append(size_bytes)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for size_bytes in (60, 300, 10, 1000, 5):
                nursery.start_soon(ask, size_bytes)
                await trio.testing.wait_all_tasks_blocked()
            assert admitted == [60, 300], "one that exceeds the limit is admitted while there is room"
            memory.release(60)
            await trio.testing.wait_all_tasks_blocked()
            assert admitted == [60, 300]
            memory.release(300)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(admitted[2:]) == [10, 1000], "in the order of any scheduler"
            memory.release(10)
            memory.release(1000)
        assert admitted[-1] == memory.held_bytes == 5

    run(main)


@pytest.mark.parametrize("limit", [0, -1])
def test_without_a_limit_everything_is_admitted(limit: int) -> None:
    async def main() -> None:
        memory = RequestMemory(limit)
        for _ in range(3):
            await memory.reserve(1 << 40)

    run(main)


def test_a_cancelled_wait_holds_nothing_and_lets_others_through() -> None:
    async def main() -> None:
        memory = RequestMemory(10)
        await memory.reserve(10)
        with trio.move_on_after(1):
            await memory.reserve(50)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(memory.reserve, 7)
            await trio.testing.wait_all_tasks_blocked()
            memory.release(10)
        assert memory.held_bytes == 7

    run(main)


def test_what_is_granted_while_it_is_cancelled_is_held() -> None:
    async def main() -> None:
        memory = RequestMemory(10)
        await memory.reserve(10)
        held = []

        async def ask() -> None:
            with scope:
                await memory.reserve(3)
                held.append(3)

        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            memory.release(10)
            scope.cancel()
        assert memory.held_bytes == sum(held) == 3

    run(main)


class Waiting:
    """A handler whose answers wait until they are released; `seen` are the sizes of the requests that began."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.released = trio.Event()

    def answer_now(self, frame: bytearray, connection: ConnectionInfo, receiver: Receiver | None) -> object:
        return self.answer(frame, connection)

    async def answer(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        self.seen.append(len(frame))
        await self.released.wait()
        return [b"done"], 0


class Node:
    """Connections of a node with a budget, in memory."""

    def __init__(self, nursery: trio.Nursery, limit: int) -> None:
        self.memory, self.handler = RequestMemory(limit), Waiting()
        self._nursery = nursery
        self.scopes: list[trio.CancelScope] = []

    async def send(self, data: bytes) -> trio.abc.Stream:
        """Send over a new connection."""
        ours, theirs = trio.testing.memory_stream_pair()
        transport = StreamTransport(theirs, "127.0.0.1", "127.0.0.1", 9092)
        connection = Connection(
            transport, self.handler, listener="", size_bytes_max=9 * MIB, memory=self.memory  # type: ignore[arg-type]
        )
        self.scopes.append(connection.scope)
        self._nursery.start_soon(connection.serve)
        self._nursery.start_soon(ours.send_all, data)
        await trio.testing.wait_all_tasks_blocked()
        return ours


def partly(key: bytes, size_bytes: int) -> bytes:
    """A request of which the last byte is missing."""
    return size_bytes.to_bytes(4, "big") + key + bytes(size_bytes - len(key) - 1)


def test_a_request_counts_until_it_is_answered_and_others_are_not_read() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery, limit=MIB)
            first = await node.send(partly(PRODUCE, 2 * MIB))
            assert node.memory.held_bytes == 2 * MIB
            second = await node.send(partly(PRODUCE, 3 * MIB))
            await first.send_all(b"x")
            nursery.start_soon(second.send_all, b"x")
            await trio.testing.wait_all_tasks_blocked()
            assert node.handler.seen == [2 * MIB], "the second was read beyond the budget"
            node.handler.released.set()
            assert await first.receive_some() == await second.receive_some() == b"done"
            assert node.memory.held_bytes == 0
            nursery.cancel_scope.cancel()

    run(main)


def test_a_long_poll_needs_no_room() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery, limit=MIB)
            await node.send(partly(PRODUCE, 2 * MIB))
            fetch = await node.send(partly(FETCH, MIB))
            await fetch.send_all(b"x")
            await trio.testing.wait_all_tasks_blocked()
            assert node.handler.seen == [MIB]
            await node.send(partly(FETCH, MIB + 1) + b"x")
            assert node.handler.seen == [MIB], "a large one needs it"
            nursery.cancel_scope.cancel()

    run(main)


def test_connections_that_end_give_back_what_they_held() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery, limit=MIB)
            halfway = await node.send(partly(PRODUCE, 2 * MIB))
            whole = await node.send(partly(PRODUCE, 4 * MIB) + b"x")
            await node.send(partly(PRODUCE, 5 * MIB))
            node.scopes[2].cancel()  # while it waits for room
            await halfway.aclose()
            await trio.testing.wait_all_tasks_blocked()
            assert (node.memory.held_bytes, node.handler.seen) == (4 * MIB, [4 * MIB])
            node.scopes[1].cancel()  # while its handler waits
            await trio.testing.wait_all_tasks_blocked()
            assert node.memory.held_bytes == 0
            await whole.aclose()

    run(main)


def test_requests_that_were_read_with_one_that_waits_count_as_well() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery, limit=MIB)
            stream = await node.send((partly(PRODUCE, 100) + b"x") * 3)
            assert node.memory.held_bytes == 200
            node.handler.released.set()
            assert await stream.receive_some() == b"done"
            await trio.testing.wait_all_tasks_blocked()
            assert node.memory.held_bytes == 0
            nursery.cancel_scope.cancel()

    run(main)
