"""A fetch that is begun without waiting has the response that its task would get: random requests, both ways."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from support.replica_world import FETCH_VERSION, TOPIC, TOPIC_ID, World

from minikafka.broker.apis import fetch
from minikafka.broker.connections.long_polls import LongPoll
from minikafka.broker.connections.request_context import ConnectionInfo, RequestContext
from minikafka.protocol.headers import response_parts
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.storage.waits import IN_TASK, Rest, begin

RECORDS = 5
PARTITIONS = st.builds(
    FetchPartition,
    partition=st.sampled_from([0, 0, 0, 1, -1]),
    fetch_offset=st.integers(-1, RECORDS + 1),
    partition_max_bytes=st.sampled_from([0, 1, 100, 1 << 20]),
    current_leader_epoch=st.sampled_from([-1, -1, 0, 1, 99]),
    last_fetched_epoch=st.sampled_from([-1, -1, 0, 99]),
)
TOPICS = st.builds(
    FetchTopic,
    topic=st.sampled_from([TOPIC, TOPIC, "unknown"]),
    topic_id=st.sampled_from([TOPIC_ID, TOPIC_ID, bytes(16), b"x" * 16]),
    partitions=st.lists(PARTITIONS, max_size=3),
)
REQUESTS = st.builds(
    FetchRequest,
    replica_id=st.just(-1),
    max_wait_ms=st.sampled_from([-1, 0, 100]),
    min_bytes=st.sampled_from([0, 1, 150, 1 << 20]),
    max_bytes=st.sampled_from([0, 100, 1 << 20]),
    isolation_level=st.integers(0, 1),
    topics=st.lists(TOPICS, max_size=2),
)


def encoded(response: Any, version: int) -> bytes:
    parts = response_parts(response, version, 1)
    return b"".join(part if isinstance(part, bytes | bytearray | memoryview) else part.read() for part in parts)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(request=REQUESTS, version=st.sampled_from([4, 6, 11, 12, FETCH_VERSION]), grows=st.booleans())
def test_begun_requests_get_the_responses_of_awaited_ones(request: FetchRequest, version: int, grows: bool) -> None:
    async def story() -> None:
        world = World(replicas=(1,))
        leader = world.nodes[1]
        for number in range(RECORDS):
            leader.produce(bytes([number]))
        context = RequestContext(leader, version, "me", ConnectionInfo("PLAINTEXT", "127.0.0.1"))
        awaited: list[Any] = []

        async def await_it() -> None:
            awaited.append(await fetch.handle(request, context))

        async with trio.open_nursery() as nursery:
            begun: Any = begin(fetch.handle(request, context))
            if isinstance(begun, Rest):
                assert isinstance(begun.wait, LongPoll)
                begun.close()
                begun = begun.wait
            nursery.start_soon(await_it)
            await trio.testing.wait_all_tasks_blocked()
            assert isinstance(begun, LongPoll) == (not awaited)
            if isinstance(begun, LongPoll) and grows:
                leader.produce(bytes(200))
                await trio.testing.wait_all_tasks_blocked()
                begun = begun.again(True)
                assert isinstance(begun, LongPoll) == (not awaited)
            if isinstance(begun, LongPoll):
                begun = begun.again(False)
        assert encoded(begun, version) == encoded(awaited[0], version)

    trio.run(story, clock=trio.testing.MockClock(autojump_threshold=0))


def test_sessions_and_followers_need_a_task() -> None:
    async def story() -> None:
        world = World(replicas=(1,))
        context = RequestContext(world.nodes[1], 12, "me", ConnectionInfo("PLAINTEXT", "127.0.0.1"))
        for unusual in ({"session_epoch": 0}, {"replica_id": 2}):
            begun = begin(fetch.handle(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], **unusual), context))
            assert isinstance(begun, Rest)
            assert begun.wait is IN_TASK
            assert (await begun).responses == []

    trio.run(story)
