"""Large responses that clients do not read take no more memory than a budget, and do not block others for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing

from minikafka.broker.connections.connection import Connection
from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.exchange import READY_BYTES_MAX
from minikafka.broker.connections.idle_connections import (
    CHECK_INTERVAL_S,
    IN_THE_WAY,
    IN_THE_WAY_RATE_MIN,
    IN_THE_WAY_S_MAX,
    close_idle_connections,
)
from minikafka.broker.connections.large_messages import (
    ELEMENTS_AT_ONCE,
    SIZE_BYTES_AT_ONCE,
    LargeMessages,
)
from minikafka.broker.connections.routes import routes_of
from minikafka.broker.connections.transport import StreamTransport
from minikafka.protocol.headers import encode_request
from minikafka.protocol.message import ManyElements, encode_parts
from minikafka.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from minikafka.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

NAME = "n" * 32_000
UNSENT_SIZE_BYTES_MAX = 4 << 20
RESPONSE_BYTES = UNSENT_SIZE_BYTES_MAX // 3
AT_A_TIME = 3
CLIENTS = 8
LARGE = ListGroupsResponse(
    groups=[ListedGroup(group_id=NAME, protocol_type="") for _ in range(RESPONSE_BYTES // len(NAME) + 1)]
)
LONG_BYTES = int(4 * IN_THE_WAY_RATE_MIN * IN_THE_WAY_S_MAX)
"""Of which a client that reads 2 * `IN_THE_WAY_RATE_MIN` takes longer than `IN_THE_WAY_S_MAX`."""
LONG = ListGroupsResponse(groups=LARGE.groups[:1] * (LONG_BYTES // len(NAME) + 1))
SMALL_REQUEST = encode_request(DescribeGroupsRequest(groups=[]), 0, 7, "me")
LARGE_REQUEST = encode_request(ListGroupsRequest(), 0, 7, "me")
IDLE_MS_MAX = 600_000


def run(main: Callable[[], Awaitable[None]]) -> None:
    with structlog.testing.capture_logs():
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


class Node:
    """Connections over streams that take nothing before it is read, to a node with a large and a small response.

    Attributes:
        encoded: How many large responses were encoded, or failed.
        encoding_s: How long that takes.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        response: ListGroupsResponse = LARGE,
        unsent_size_bytes_max: int = UNSENT_SIZE_BYTES_MAX,
    ) -> None:
        self.encoded = 0
        self.encoding_s = 0.0
        self._fails = False
        self._nursery = nursery
        self._response = response
        self.large = LargeMessages(self._run, unsent_size_bytes_max)
        apis: Any = [
            SimpleNamespace(REQUEST=ListGroupsRequest, VERSIONS="0", handle=self._list),
            SimpleNamespace(REQUEST=DescribeGroupsRequest, VERSIONS="0", handle=self._describe),
        ]
        self.dispatcher: Dispatcher[None] = Dispatcher(
            None, routes_of(apis), clock=trio.current_time, large_messages=self.large
        )
        self.connections: dict[Connection, None] = {}

    async def _list(self, request: Any, context: Any) -> ListGroupsResponse:
        return ListGroupsResponse(groups=list(self._response.groups))

    async def _describe(self, request: Any, context: Any) -> DescribeGroupsResponse:
        return DescribeGroupsResponse()

    async def _run(self, function: Any, *args: object) -> Any:
        await trio.sleep(self.encoding_s)
        self.encoded += 1
        if self._fails:
            raise ZeroDivisionError
        return function(*args)

    def fail(self) -> None:
        """Let no further response be encoded."""
        self._fails = True

    async def ask(self, sent: bytes) -> trio.abc.Stream:
        ours, theirs = trio.testing.lockstep_stream_pair()
        transport = StreamTransport(theirs, "127.0.0.1", "127.0.0.1", 9092)
        connection = Connection(transport, self.dispatcher, listener="", size_bytes_max=1 << 20)
        self.connections[connection] = None
        self._nursery.start_soon(self._serve, connection)
        await ours.send_all(sent)
        await trio.testing.wait_all_tasks_blocked()
        return ours

    async def _serve(self, connection: Connection) -> None:
        await connection.serve()
        del self.connections[connection]

    async def ask_many(self) -> list[trio.abc.Stream]:
        return [await self.ask(LARGE_REQUEST) for _ in range(CLIENTS)]

    @property
    def held_bytes(self) -> int:
        return self.large._unsent["others"].held_bytes

    @property
    def waited_for_s(self) -> float:
        return self.large._unsent["others"].waited_for_s


async def read(stream: trio.abc.Stream) -> int:
    """The size of the next response."""
    left = 4 + int.from_bytes(await stream.receive_some(4), "big")
    size_bytes = left
    left -= 4
    while left:
        left -= len(await stream.receive_some(left))
    return size_bytes


def test_unread_responses_take_the_budget_and_one_response_more() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery)
            streams = await node.ask_many()
            assert node.encoded == AT_A_TIME
            assert UNSENT_SIZE_BYTES_MAX <= node.held_bytes < UNSENT_SIZE_BYTES_MAX + RESPONSE_BYTES
            assert await read(await node.ask(SMALL_REQUEST)), "small ones do not wait"
            for stream in streams:
                await read(stream)
                await trio.testing.wait_all_tasks_blocked()
                assert node.held_bytes < UNSENT_SIZE_BYTES_MAX + RESPONSE_BYTES
            assert node.encoded == CLIENTS
            assert node.held_bytes == 0
            nursery.cancel_scope.cancel()

    run(main)


def test_clients_that_do_not_read_are_disconnected_only_where_others_wait() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery)
            nursery.start_soon(close_idle_connections, node.connections, IDLE_MS_MAX)
            slow = [await node.ask(LARGE_REQUEST) for _ in range(AT_A_TIME)]
            await trio.sleep(2 * IN_THE_WAY_S_MAX)
            assert len(node.connections) == AT_A_TIME
            with structlog.testing.capture_logs() as logs, trio.fail_after(2 * IN_THE_WAY_S_MAX):
                assert await read(await node.ask(LARGE_REQUEST)) > RESPONSE_BYTES
            assert [entry["reason"] for entry in logs if entry["event"] == "connection closed"] == [IN_THE_WAY] * 3
            assert len(slow) == AT_A_TIME
            await trio.testing.wait_all_tasks_blocked()
            assert node.held_bytes == 0
            nursery.cancel_scope.cancel()

    run(main)


SLOW = {"1,000 bytes every 3 s": (1_000, 3.0), "half of what is expected": (IN_THE_WAY_RATE_MIN // 2, 1.0)}


@pytest.mark.parametrize(("size_bytes", "pause_s"), SLOW.values(), ids=SLOW)
def test_clients_that_read_too_slowly_are_disconnected_where_others_wait(size_bytes: int, pause_s: float) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery, LONG)
            nursery.start_soon(close_idle_connections, node.connections, IDLE_MS_MAX)
            slow = await node.ask(LARGE_REQUEST)
            nursery.start_soon(read_slowly, slow, size_bytes, pause_s)
            with structlog.testing.capture_logs() as logs, trio.fail_after(IN_THE_WAY_S_MAX + 2 * CHECK_INTERVAL_S):
                assert await read(await node.ask(LARGE_REQUEST)) > LONG_BYTES
            assert [entry["reason"] for entry in logs if entry["event"] == "connection closed"] == [IN_THE_WAY]
            nursery.cancel_scope.cancel()

    run(main)


def test_clients_that_read_fast_enough_are_waited_for() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery, LONG)
            nursery.start_soon(close_idle_connections, node.connections, IDLE_MS_MAX)
            slow = await node.ask(LARGE_REQUEST)
            waiting = await node.ask(LARGE_REQUEST)
            assert await read_slowly(slow, 2 * IN_THE_WAY_RATE_MIN, 1.0) > LONG_BYTES
            assert trio.current_time() > 1.5 * IN_THE_WAY_S_MAX, "others waited for long enough"
            assert await read(waiting) > LONG_BYTES
            nursery.cancel_scope.cancel()

    run(main)


async def read_slowly(stream: trio.abc.Stream, size_bytes: int, pause_s: float) -> int:
    """Read so many bytes each time until there are no more; returns how many there were."""
    count = 0
    with trio.move_on_after(1e9) as scope:
        while data := await receive_exactly(stream, size_bytes):
            count += len(data)
            scope.deadline = trio.current_time() + 3 * pause_s
            await trio.sleep(pause_s)
    return count


async def receive_exactly(stream: trio.abc.Stream, size_bytes: int) -> bytes:
    """So many bytes, or those before the end."""
    data = b""
    with trio.move_on_after(1.0):
        while len(data) < size_bytes and (more := await stream.receive_some(size_bytes - len(data))):
            data += more
    return data


def test_whoever_ends_otherwise_holds_nothing() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery)
            await node.ask_many()
            for connection in list(node.connections)[:-1]:
                connection.scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert RESPONSE_BYTES < node.held_bytes < UNSENT_SIZE_BYTES_MAX
            node.fail()
            await read(await node.ask(LARGE_REQUEST))
            next(iter(node.connections)).scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert node.held_bytes == 0
            nursery.cancel_scope.cancel()

    run(main)


ELEMENT_BYTES = len(encode_parts(ListedGroup(group_id="", protocol_type=""), 0)[0])
MANY_ELEMENTS = {
    "the fewest": ELEMENTS_AT_ONCE + 1,
    "below what is held back": READY_BYTES_MAX // ELEMENT_BYTES - 10,
    "above what is held back": READY_BYTES_MAX // ELEMENT_BYTES + 10,
}
SIZES = {"long names": LARGE} | {
    size: ListGroupsResponse(groups=[ListedGroup(group_id="", protocol_type="") for _ in range(count)])
    for size, count in MANY_ELEMENTS.items()
}


@pytest.mark.parametrize("room_bytes", [1, UNSENT_SIZE_BYTES_MAX], ids=["room for one", "room for many"])
@pytest.mark.parametrize("response", SIZES.values(), ids=SIZES)
def test_of_requests_that_arrive_together_one_large_response_is_held_at_a_time(
    response: ListGroupsResponse, room_bytes: int
) -> None:
    size_bytes = sum(map(len, encode_parts(response, 0)))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery, response, room_bytes)
            stream = await node.ask(LARGE_REQUEST * 3 + SMALL_REQUEST)
            for _ in range(3):
                assert node.held_bytes < 2 * size_bytes
                with trio.fail_after(1):
                    assert await read(stream) > size_bytes
                await trio.testing.wait_all_tasks_blocked()
            assert node.encoded == 3
            assert await read(stream) < 100
            await trio.testing.wait_all_tasks_blocked()
            assert node.held_bytes == 0
            nursery.cancel_scope.cancel()

    run(main)


def test_who_waits_only_while_another_response_is_encoded_disconnects_nobody() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            node = Node(nursery)
            nursery.start_soon(close_idle_connections, node.connections, IDLE_MS_MAX)
            await node.ask(LARGE_REQUEST)
            await trio.sleep(2 * IN_THE_WAY_S_MAX + 1)
            node.encoding_s = CHECK_INTERVAL_S
            streams = [await node.ask(LARGE_REQUEST) for _ in range(2)]
            await trio.sleep(2)
            assert node.waited_for_s == pytest.approx(2), "the second waits while the connections are checked"
            for stream in streams:
                await read(stream)
            assert len(node.connections) == 3
            nursery.cancel_scope.cancel()

    run(main)


LONG_METADATA = DescribedGroupMember(member_metadata=bytes(SIZE_BYTES_AT_ONCE + 10_000))


@pytest.mark.parametrize(
    "response", [LARGE, DescribeGroupsResponse(groups=[DescribedGroup(members=[LONG_METADATA])])], ids=["names", "data"]
)
@pytest.mark.parametrize("version", [0, 5])
def test_few_elements_with_many_bytes_are_many_elements(response: Any, version: int) -> None:
    with pytest.raises(ManyElements):
        encode_parts(response, version, ELEMENTS_AT_ONCE)
