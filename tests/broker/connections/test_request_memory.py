"""The budget of request bytes in memory: who is admitted when, and what connections hold of it."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing

from minikafka.broker.connections import exchange
from minikafka.broker.connections.connection import UNCOUNTED_SIZE_BYTES_MAX, Connection
from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.idle_connections import (
    CHECK_INTERVAL_S,
    IN_THE_WAY,
    IN_THE_WAY_RATE_MIN,
    IN_THE_WAY_S_MAX,
    close_idle_connections,
)
from minikafka.broker.connections.long_polls import Receiver
from minikafka.broker.connections.request_context import Answer, ConnectionInfo
from minikafka.broker.connections.request_memory import RequestMemory
from minikafka.broker.connections.request_times import RequestTimes
from minikafka.broker.connections.routes import routes_of
from minikafka.broker.connections.transport import StreamTransport
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from minikafka.storage.waits import begin, in_task

PRODUCE, FETCH = b"\x00\x00", b"\x00\x01"
MIB = 1 << 20
LIMIT = 12 * MIB
IDLE_MS_MAX = 600_000


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
        return begin(self.answer(frame, connection))

    async def answer(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        await in_task()
        self.seen.append(len(frame))
        await self.released.wait()
        return [b"done"], 0


class Node:
    """Connections of a node with a budget, in memory; slow ones are closed as in a node."""

    def __init__(self, nursery: trio.Nursery, limit: int) -> None:
        self.memory, self.handler = RequestMemory(limit), Waiting()
        self._nursery = nursery
        self.scopes: list[trio.CancelScope] = []
        self.connections: dict[Connection, None] = {}
        nursery.start_soon(close_idle_connections, self.connections, IDLE_MS_MAX)

    async def send(self, data: bytes, *, taking: bool = True) -> trio.abc.Stream:
        """Send over a new connection; one that is not `taking` takes no byte of a response before it is read."""
        ours, theirs = trio.testing.memory_stream_pair() if taking else trio.testing.lockstep_stream_pair()
        transport = StreamTransport(theirs, "127.0.0.1", "127.0.0.1", 9092)
        connection = Connection(
            transport, self.handler, listener="", size_bytes_max=9 * MIB, memory=self.memory  # type: ignore[arg-type]
        )
        self.scopes.append(connection.scope)
        self.connections[connection] = None
        self._nursery.start_soon(self._serve, connection)
        self._nursery.start_soon(ours.send_all, data)
        await trio.testing.wait_all_tasks_blocked()
        return ours

    async def _serve(self, connection: Connection) -> None:
        await connection.serve()
        del self.connections[connection]


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


UNCOUNTED = {
    "several": (partly(PRODUCE, 100) + b"x") * 3,
    "of more than one read": partly(PRODUCE, 600_000) + b"x",
    "the largest": partly(FETCH, UNCOUNTED_SIZE_BYTES_MAX) + b"x",
}


@pytest.mark.parametrize("sent", UNCOUNTED.values(), ids=UNCOUNTED)
def test_requests_of_up_to_a_mib_need_no_room(sent: bytes) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery, limit=MIB)
            await node.send(partly(PRODUCE, 2 * MIB))
            held_bytes = node.memory.held_bytes
            await node.send(sent)
            assert (len(node.handler.seen), node.memory.held_bytes) == (1, held_bytes)
            await node.send(partly(FETCH, UNCOUNTED_SIZE_BYTES_MAX + 1) + b"x")
            assert len(node.handler.seen) == 1, "a larger one needs it"
            nursery.cancel_scope.cancel()

    run(main)


@pytest.mark.parametrize("sent_bytes", [4, 5, 34, 200_000, UNCOUNTED_SIZE_BYTES_MAX - 1])
def test_the_beginnings_of_large_requests_hold_no_room(sent_bytes: int) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery, limit=LIMIT)
            for _ in range(3):
                await node.send(partly(PRODUCE, 9 * MIB)[: 4 + sent_bytes])
            assert node.memory.held_bytes == 0
            await node.send(partly(PRODUCE, 3 * MIB) + b"x")
            assert node.handler.seen == [3 * MIB]
            nursery.cancel_scope.cancel()

    run(main)


SLOW = {"nothing": (0, 1.0), "10,000 bytes every 3 s": (10_000, 3.0), "half of it": (IN_THE_WAY_RATE_MIN // 2, 1.0)}


@pytest.mark.parametrize(("size_bytes", "pause_s"), SLOW.values(), ids=SLOW)
def test_clients_that_send_a_large_request_too_slowly_are_disconnected_where_others_wait(
    size_bytes: int, pause_s: float
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery, limit=LIMIT)
            node.handler.released.set()
            slow = [await node.send(partly(PRODUCE, 9 * MIB)[: 2 * MIB]) for _ in range(2)]
            await trio.sleep(2 * IN_THE_WAY_S_MAX)
            assert len(node.connections) == 2, "nobody waits"
            for stream in slow:
                nursery.start_soon(send_slowly, stream, size_bytes, pause_s)
            with structlog.testing.capture_logs() as logs, trio.fail_after(IN_THE_WAY_S_MAX + 2 * CHECK_INTERVAL_S):
                assert await (await node.send(partly(PRODUCE, 3 * MIB) + b"x")).receive_some() == b"done"
            assert reasons(logs) == [IN_THE_WAY] * 2
            nursery.cancel_scope.cancel()

    run(main)


def test_clients_that_send_fast_enough_are_waited_for() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery, limit=MIB)
            node.handler.released.set()
            slow = await node.send(partly(PRODUCE, 9 * MIB)[: 2 * MIB])
            waiting = await node.send(partly(PRODUCE, 3 * MIB) + b"x")
            nursery.start_soon(send_slowly, slow, IN_THE_WAY_RATE_MIN, 0.8)
            assert await slow.receive_some() == b"done"
            assert trio.current_time() > 2 * IN_THE_WAY_S_MAX, "others waited for long enough"
            assert await waiting.receive_some() == b"done"
            nursery.cancel_scope.cancel()

    run(main)


async def send_slowly(stream: trio.abc.Stream, size_bytes: int, pause_s: float) -> None:
    """Send a request of 9 MiB, of which 2 MiB have been sent, in parts, if they have bytes."""
    left = 7 * MIB + 4
    while left > 0 and size_bytes:
        await trio.sleep(pause_s)
        try:
            await stream.send_all(bytes(min(left, size_bytes)))
        except trio.BrokenResourceError:
            return
        left -= size_bytes


def test_a_request_is_in_the_way_while_its_response_is_not_read_but_not_while_it_is_handled() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery, limit=MIB)
            whole = await node.send(partly(PRODUCE, 2 * MIB) + b"x", taking=False)
            waiting = await node.send(partly(PRODUCE, 3 * MIB) + b"x")
            await trio.sleep(3 * IN_THE_WAY_S_MAX)
            assert len(node.connections) == 2, "it waits for the node"
            node.handler.released.set()
            with structlog.testing.capture_logs() as logs, trio.fail_after(IN_THE_WAY_S_MAX + 2 * CHECK_INTERVAL_S):
                assert await waiting.receive_some() == b"done"
            assert reasons(logs) == [IN_THE_WAY]
            await whole.aclose()
            nursery.cancel_scope.cancel()

    run(main)


def reasons(logs: Sequence[Mapping[str, object]]) -> list[object]:
    return [entry["reason"] for entry in logs if entry["event"] == "connection closed"]


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
            nursery.cancel_scope.cancel()

    run(main)


LARGE = bytes(2 * MIB)
PARTITION = PartitionProduceData(index=0, records=memoryview(LARGE))
WAITING: dict[str, tuple[Any, int, bool, bool]] = {
    "a JoinGroup": (
        JoinGroupRequest(protocols=[JoinGroupRequestProtocol(name="p", metadata=LARGE)]), 0, False, False,
    ),
    "a SyncGroup": (
        SyncGroupRequest(assignments=[SyncGroupRequestAssignment(member_id="m", assignment=LARGE)]), 0, False, False,
    ),
    "another one": (DeleteGroupsRequest(groups_names=["g" * 30_000] * 70), 0, True, False),
    "a Produce": (ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[PARTITION])]), 3, True, True),
}  # fmt: skip


@pytest.mark.parametrize(("message", "version", "holds", "is_kept"), WAITING.values(), ids=WAITING)
def test_requests_that_wait_for_members_of_a_group_hold_no_room_and_no_frame(
    message: Any, version: int, holds: bool, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = list[weakref.ref["Frame"]]()

    class Reader(FrameReader):
        __slots__ = ()

        def received(self, count: int) -> bytearray | None:
            frame = super().received(count)
            if frame is not None:
                frames.append(weakref.ref(frame := Frame(frame)))
            return frame

    async def handle(request: Any, context: Any) -> None:
        await in_task()
        await trio.sleep_forever()

    monkeypatch.setattr(exchange, "FrameReader", Reader)
    api = SimpleNamespace(REQUEST=type(message), VERSIONS=str(version), handle=handle)
    dispatcher = Dispatcher(None, routes_of([api]), clock=trio.current_time)
    frame = encode_request(message, version, 7, "me")

    async def main() -> None:
        memory, (ours, theirs) = RequestMemory(MIB), trio.testing.memory_stream_pair()
        transport = StreamTransport(theirs, "127.0.0.1", "127.0.0.1", 9092)
        connection = Connection(
            transport, dispatcher, listener="", size_bytes_max=9 * MIB, memory=memory, times=RequestTimes()
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.serve)
            await ours.send_all(frame)
            await trio.testing.wait_all_tasks_blocked()
            assert memory.held_bytes == (len(frame) - 4) * holds
            assert [kept() is not None for kept in frames] == [is_kept]
            nursery.cancel_scope.cancel()
        assert memory.held_bytes == 0

    run(main)


class Frame(bytearray):
    """Bytes that a test can see disappear."""
