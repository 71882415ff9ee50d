"""Large requests of several connections share memory, and none waits for ever for one that waits for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from minikafka.broker.apis import offset_for_leader_epoch
from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.large_messages import (
    ELEMENT_SIZE_BYTES,
    ELEMENTS_AT_ONCE,
    ELEMENTS_MAX_WITH_PAUSES,
    FETCH_WAITS_MS_MAX,
    MEMORY_SIZE_BYTES_MAX,
    SIZE_BYTES_AT_ONCE,
    LargeMessages,
)
from minikafka.broker.connections.request_context import ConnectionInfo, Disconnect
from minikafka.broker.connections.routes import routes_of
from minikafka.protocol.elements import count_elements
from minikafka.protocol.errors import NotControllerError, UnknownTopicOrPartitionError
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.message import ManyElements, decode, encode
from minikafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from minikafka.storage.waits import in_task

MANY = 60_000
AT_A_TIME = -(-MEMORY_SIZE_BYTES_MAX // (MANY * ELEMENT_SIZE_BYTES))
"""As many as hold less than the limit, and one more."""


def client() -> ConnectionInfo:
    return ConnectionInfo("PLAINTEXT", "127.0.0.1")


def metadata(count: int = MANY) -> tuple[MetadataRequest, int]:
    return MetadataRequest(topics=[MetadataRequestTopic(name="t") for _ in range(count)]), 1


def fetch(count: int = MANY, max_wait_ms: int = 10_000) -> tuple[FetchRequest, int]:
    partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1) for _ in range(count - 1)]
    topics = [FetchTopic(topic="t", partitions=partitions)]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics), 11


def produce(count: int = MANY) -> tuple[ProduceRequest, int]:
    data = [PartitionProduceData(index=0, records=None) for _ in range(count - 1)]
    return ProduceRequest(acks=-1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)]), 9


def join(count: int = 2 * ELEMENTS_AT_ONCE) -> tuple[JoinGroupRequest, int]:
    protocols = [JoinGroupRequestProtocol(name="p", metadata=b"") for _ in range(count)]
    return JoinGroupRequest(
        group_id="g", session_timeout_ms=1, member_id="", protocol_type="c", protocols=protocols
    ), 0


class Node:
    """A dispatcher whose handlers of Metadata, Produce and JoinGroup wait for an event, as for the controller, for
    followers and for members.

    Attributes:
        waiting: Requests that are handled now.
        most: The most so far.
    """

    def __init__(self) -> None:
        self.go = trio.Event()
        self.waiting = self.most = self.answered = 0
        self.fetches: list[FetchRequest] = []
        self.large = LargeMessages(self._run)
        apis: Any = [
            self._api(MetadataRequest, MetadataResponse(), "0-1"),
            self._api(ProduceRequest, ProduceResponse(), "3-9"),
            self._api(JoinGroupRequest, JoinGroupResponse(protocol_name="", leader="", member_id=""), "0"),
            SimpleNamespace(REQUEST=FetchRequest, VERSIONS="4-11", handle=self._fetch, ELEMENTS_MAX=10**5),
        ]
        self.dispatcher: Dispatcher[None] = Dispatcher(
            None, routes_of(apis), clock=trio.current_time, large_messages=self.large
        )

    def _api(self, request: type, response: Any, versions: str) -> Any:
        async def handle(_: Any, context: Any) -> Any:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            await in_task()
            await self.go.wait()
            self.waiting -= 1
            return response

        return SimpleNamespace(
            REQUEST=request, VERSIONS=versions, handle=handle, ELEMENTS_MAX=ELEMENTS_MAX_WITH_PAUSES
        )

    async def _fetch(self, request: FetchRequest, context: Any) -> FetchResponse:
        self.fetches.append(request)
        return FetchResponse()

    @staticmethod
    async def _run(function: Any, *args: object) -> Any:
        await trio.lowlevel.checkpoint()
        return function(*args)

    async def ask(self, asked: tuple[Any, int]) -> None:
        await self.dispatcher.answer(bytearray(encode_request(*asked, 7, "me")[4:]), client())
        self.answered += 1

    @property
    def held_bytes(self) -> int:
        return sum(memory.held_bytes for memory in self.large._memory.values())


@pytest.mark.slow
@pytest.mark.parametrize("request_", [metadata, produce])
def test_large_requests_wait_for_those_that_fill_the_memory(request_: Any) -> None:
    async def main() -> None:
        node = Node()
        async with trio.open_nursery() as nursery:
            for _ in range(AT_A_TIME + 3):
                nursery.start_soon(node.ask, request_())
            await trio.testing.wait_all_tasks_blocked()
            assert node.waiting == AT_A_TIME
            assert node.held_bytes <= MEMORY_SIZE_BYTES_MAX + ELEMENTS_MAX_WITH_PAUSES * ELEMENT_SIZE_BYTES
            with trio.fail_after(1):
                await node.ask(fetch())
            node.go.set()
        assert (node.answered, node.held_bytes) == (AT_A_TIME + 4, 0)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.slow
@pytest.mark.parametrize("client_id", ["broker-2-fetcher", "broker-2-fetcher-0"])
@pytest.mark.parametrize("is_large", [True, False])
def test_a_follower_does_not_wait_for_consumers_that_read_nothing(client_id: str, is_large: bool) -> None:
    """Neither with a large request, the first on its connection, nor with one that resumes a session."""
    partitions = [PartitionData(partition_index=index, aborted_transactions=None) for index in range(MANY)]
    room = 3 * ELEMENTS_AT_ONCE

    async def handle(request: FetchRequest, context: Any) -> FetchResponse:
        context.connection.follows = request.replica_id >= 0
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=list(partitions))])

    async def main() -> None:
        api: Any = SimpleNamespace(REQUEST=FetchRequest, VERSIONS="4-11", handle=handle, ELEMENTS_MAX=10**5)
        dispatcher: Dispatcher[None] = Dispatcher(
            None, routes_of([api]), clock=trio.current_time, large_messages=LargeMessages(Node._run, room)
        )

        async def ask(count: int, replica_id: int, client_id: str) -> None:
            request, version = fetch(count)
            request.replica_id = replica_id
            frame = encode_request(request, version, 7, client_id)[4:]
            await dispatcher.answer(bytearray(frame), client())

        async with trio.open_nursery() as nursery:
            for _ in range(AT_A_TIME + 3):
                nursery.start_soon(ask, MANY, -1, "consumer")
            await trio.testing.wait_all_tasks_blocked()
            assert len(nursery.child_tasks) == AT_A_TIME + 2, "one has the room, and no other gets any"
            with trio.fail_after(1):
                await ask(MANY if is_large else 10, 2, client_id)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.slow
@pytest.mark.parametrize("client_id", ["broker-2-fetcher", "broker-2-fetcher-0"])
def test_a_follower_that_asks_for_epochs_does_not_wait_for_consumers_that_read_nothing(client_id: str) -> None:
    """The first request on its connection: its response counts with those to followers."""

    def no_such_partition(topic: str, index: int) -> None:
        raise UnknownTopicOrPartitionError

    def asked(replica_id: int, client_id: str) -> bytearray:
        partitions = [OffsetForLeaderPartition(partition=index) for index in range(MANY)]
        topics = [OffsetForLeaderTopic(topic="t", partitions=partitions)]
        request = OffsetForLeaderEpochRequest(replica_id=replica_id, topics=topics)
        return bytearray(encode_request(request, 4, 7, client_id)[4:])

    async def main() -> None:
        node: Any = SimpleNamespace(partitions=SimpleNamespace(find=no_such_partition))
        dispatcher: Dispatcher[Any] = Dispatcher(
            node,
            routes_of([offset_for_leader_epoch]),
            clock=trio.current_time,
            large_messages=LargeMessages(Node._run, 3 * ELEMENTS_AT_ONCE),
        )
        async with trio.open_nursery() as nursery:
            for _ in range(AT_A_TIME + 3):
                nursery.start_soon(dispatcher.answer, asked(-1, "consumer"), client())
            await trio.testing.wait_all_tasks_blocked()
            assert len(nursery.child_tasks) == AT_A_TIME + 2, "one has the room, and no other gets any"
            with trio.fail_after(1):
                await dispatcher.answer(asked(2, client_id), client())
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.slow
def test_small_requests_and_those_of_members_that_wait_for_one_another_hold_nothing() -> None:
    async def main() -> None:
        node = Node()
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(node.ask, join())
                nursery.start_soon(node.ask, metadata(10))
            await trio.testing.wait_all_tasks_blocked()
            assert (node.waiting, node.held_bytes) == (100, 0)
            node.go.set()

    trio.run(main)


@pytest.mark.slow
def test_a_request_holds_what_its_elements_take_once_they_are_counted() -> None:
    async def main() -> None:
        node = Node()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.ask, metadata())
            await trio.testing.wait_all_tasks_blocked()
            assert node.held_bytes == MANY * ELEMENT_SIZE_BYTES
            nursery.cancel_scope.cancel()
        assert node.held_bytes == 0
        with pytest.raises(Disconnect):
            await node.ask(metadata(ELEMENTS_MAX_WITH_PAUSES + 1))
        assert node.held_bytes == 0

    trio.run(main)


@pytest.mark.parametrize(
    ("count", "asked_ms", "waits_ms"), [(MANY, 10_000, FETCH_WAITS_MS_MAX), (MANY, 3, 3), (100, 10_000, 10_000)]
)
def test_a_large_fetch_waits_only_for_a_short_time(count: int, asked_ms: int, waits_ms: int) -> None:
    async def main() -> None:
        node = Node()
        await node.ask(fetch(count, asked_ms))
        [request] = node.fetches
        assert request.max_wait_ms == waits_ms

    trio.run(main)


@pytest.mark.parametrize("asked", [metadata(10), fetch(10), produce(10), join(10)])
def test_elements_are_counted_as_the_decoder_counts_them(asked: tuple[Any, int]) -> None:
    request, version = asked
    data = encode(request, version)
    count = count_elements(decode(type(request), version, data))
    assert count == 10
    decode(type(request), version, data, 0, count)
    with pytest.raises(ManyElements):
        decode(type(request), version, data, 0, count - 1)


@pytest.mark.slow
def test_the_elements_of_a_large_request_and_its_response_are_freed_in_the_thread() -> None:
    handled: list[Any] = []

    async def handle(request: MetadataRequest, _: Any) -> MetadataResponse:
        topics = [MetadataResponseTopic(name=topic.name) for topic in request.topics or []]
        handled.extend([request, MetadataResponse(topics=topics)])
        return handled[1]

    async def main() -> None:
        api: Any = SimpleNamespace(REQUEST=MetadataRequest, VERSIONS="0-1", handle=handle, ELEMENTS_MAX=10**5)
        dispatcher: Dispatcher[None] = Dispatcher(
            None, routes_of([api]), clock=trio.current_time, large_messages=LargeMessages(Node._run)
        )
        parts, _ = await dispatcher.answer(bytearray(encode_request(*metadata(), 7, "me")[4:]), client())
        [response] = decode_response(MetadataResponse, 1, b"".join(parts)[4:])[1:]
        assert len(response.topics) == MANY
        assert [message.topics for message in handled] == [[], []]

    trio.run(main)


@pytest.mark.parametrize(("size_bytes", "runs"), [(SIZE_BYTES_AT_ONCE // 2, 0), (SIZE_BYTES_AT_ONCE + 1, 2)])
def test_a_request_of_many_bytes_is_decoded_and_encoded_in_the_thread(size_bytes: int, runs: int) -> None:
    functions: list[Any] = []

    async def run(function: Any, *args: object) -> Any:
        functions.append(function)
        return await Node._run(function, *args)

    async def named(request: MetadataRequest, _: Any) -> MetadataResponse:
        return MetadataResponse(topics=[MetadataResponseTopic(name=topic.name) for topic in request.topics or []])

    async def appended(request: ProduceRequest, _: Any) -> ProduceResponse:
        partitions = [PartitionProduceResponse(index=0, base_offset=1)]
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=partitions)])

    async def main() -> None:
        apis: Any = [
            SimpleNamespace(REQUEST=MetadataRequest, VERSIONS="0-1", handle=named),
            SimpleNamespace(REQUEST=ProduceRequest, VERSIONS="3-9", handle=appended),
        ]
        dispatcher: Dispatcher[None] = Dispatcher(
            None, routes_of(apis), clock=trio.current_time, large_messages=LargeMessages(run)
        )
        names = ["é" * 10_000] * -(-size_bytes // 20_000)
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        parts, _ = await dispatcher.answer(bytearray(encode_request(request, 1, 7, "me")[4:]), client())
        [response] = decode_response(MetadataResponse, 1, b"".join(parts)[4:])[1:]
        assert [topic.name for topic in response.topics] == names
        assert len(functions) == runs
        data = [PartitionProduceData(index=0, records=bytes(size_bytes))]
        records = ProduceRequest(acks=-1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
        await dispatcher.answer(bytearray(encode_request(records, 9, 8, "me")[4:]), client())
        assert len(functions) == runs

    trio.run(main)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(("count", "runs"), [(MANY, 3), (3, 0)])
def test_a_request_of_many_elements_is_refused_in_the_thread(waits: bool, count: int, runs: int) -> None:
    """That is: decoded, refused and encoded. A small one is not."""
    functions: list[Any] = []

    async def run(function: Any, *args: object) -> Any:
        functions.append(function)
        return await Node._run(function, *args)

    async def handle(request: MetadataRequest, _: Any) -> Any:
        if waits:
            await in_task()
            await trio.lowlevel.checkpoint()
        raise NotControllerError

    async def main() -> None:
        api: Any = SimpleNamespace(REQUEST=MetadataRequest, VERSIONS="0-1", handle=handle, ELEMENTS_MAX=10**5)
        dispatcher: Dispatcher[None] = Dispatcher(
            None, routes_of([api]), clock=trio.current_time, large_messages=LargeMessages(run)
        )
        parts, _ = await dispatcher.answer(bytearray(encode_request(*metadata(count), 7, "me")[4:]), client())
        [response] = decode_response(MetadataResponse, 1, b"".join(parts)[4:])[1:]
        assert [topic.error_code for topic in response.topics] == [NotControllerError().code] * count
        assert len(functions) == runs

    trio.run(main)
