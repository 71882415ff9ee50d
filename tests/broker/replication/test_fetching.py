"""The leader's side of followers' fetches, and consumers that are sent to a replica in their rack (KIP-392)."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing
from support.replica_world import TOPIC, TOPIC_ID, Node, World

from minikafka.broker.apis import fetch
from minikafka.broker.partitions.fetch_result import FetchResult
from minikafka.broker.partitions.fetch_sessions import CachedPartition, SessionKey
from minikafka.broker.partitions.request_waiters import (
    ChangedPartitions,
    CommitWaiters,
    GrowthSignal,
    sleep_until_grown,
)
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

WAIT_MS = 500


def in_trio(story: Callable[[], Awaitable[None]]) -> None:
    trio.run(story, clock=trio.testing.MockClock(autojump_threshold=0))


async def ask(node: Node, request: FetchRequest, *, rack_aware: bool = False) -> FetchResponse:
    node.fetching = replace(node.fetching, rack_aware=rack_aware)
    return await fetch.handle(request, node.context())


def test_a_waiting_follower_is_answered_on_growth() -> None:
    async def story() -> None:
        world = World(replicas=(1, 2))
        leader, follower = world.nodes[1], world.nodes[2]
        await world.replicate(3)
        asked = follower.ask()
        assert asked is not None
        answers: list[FetchResponse] = []

        async def wait() -> None:
            answers.append(await ask(leader, asked[2]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
            assert asked[2].max_wait_ms == WAIT_MS
            leader.produce(b"news")
        assert trio.current_time() == began
        assert len(answers[0].responses[0].partitions[0].records or b"")

    in_trio(story)


def test_without_changes_a_follower_waits_for_max_wait_ms() -> None:
    async def story() -> None:
        world = World(replicas=(1, 2))
        await world.replicate(3)
        asked = world.nodes[2].ask()
        assert asked is not None
        began = trio.current_time()
        assert (await ask(world.nodes[1], asked[2])).responses == []
        assert trio.current_time() - began == WAIT_MS / 1000

    in_trio(story)


def test_a_new_high_watermark_is_sent_after_the_wait_or_at_once_if_followers_serve_reads() -> None:
    """KAFKA-9731: at once costs a fetch for each record; only who serves consumers needs it."""

    async def story(*, rack_aware: bool) -> None:
        world = World(rack_aware=rack_aware)
        leader, two = world.nodes[1], world.nodes[2]
        await world.replicate(3)
        leader.produce(b"a")
        await two.fetch()
        asked = two.ask()
        assert asked is not None
        took: list[float] = []

        async def wait() -> None:
            began = trio.current_time()
            response = await ask(leader, asked[2], rack_aware=rack_aware)
            took.append(trio.current_time() - began)
            assert response.responses[0].partitions[0].high_watermark == 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await world.replicate(2, 3)
        assert took == [0 if rack_aware else WAIT_MS / 1000]

    in_trio(lambda: story(rack_aware=False))
    in_trio(lambda: story(rack_aware=True))


def test_a_consumer_is_sent_to_the_follower_in_its_rack() -> None:
    """KIP-392: and gets no records from the leader then."""

    async def story() -> None:
        world = World()
        world.leader.produce(b"a")
        await world.replicate(3)
        leader = world.nodes[1]
        for node_id in (1, 2, 3):
            record = leader.image.brokers[node_id]
            leader.image.brokers[node_id] = type(record)(
                node_id, record.epoch, record.incarnation_id, record.endpoints, f"rack-{node_id}", fenced=False
            )
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topic = FetchTopic(topic_id=TOPIC_ID, partitions=[asked])
        request = FetchRequest(topics=[topic], rack_id="rack-3", max_wait_ms=WAIT_MS, min_bytes=1)
        answer = (await ask(leader, request, rack_aware=True)).responses[0].partitions[0]
        assert (answer.preferred_read_replica, answer.records, answer.high_watermark) == (3, b"", 1)
        answer = (await ask(leader, request, rack_aware=False)).responses[0].partitions[0]
        assert answer.preferred_read_replica == -1
        assert len(answer.records or b"")
        answer = (await ask(world.nodes[3], request, rack_aware=True)).responses[0].partitions[0]
        assert len(answer.records or b"")

    in_trio(story)


def test_delete_records_waits_for_all_live_replicas() -> None:
    """KIP-107."""

    async def story() -> None:
        world = World()
        leader = world.nodes[1]
        for value in (b"a", b"b", b"c"):
            leader.produce(value)
        await world.replicate(3)
        done: list[int] = []

        async def delete() -> None:
            await leader.partition.deleted(leader.partition.delete_records(2))
            done.append(leader.partition.low_watermark)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(delete)
            await trio.testing.wait_all_tasks_blocked()
            await world.replicate(3, 2)
            await trio.testing.wait_all_tasks_blocked()
            assert done == []
            await world.replicate(3, 3)
        assert done == [2]
        assert [node.partition.log.start_offset for node in world.nodes.values()] == [2, 2, 2]

    in_trio(story)


def test_changed_partitions_list_growth_and_wake_the_waiter() -> None:
    async def story() -> None:
        news, places = ChangedPartitions(), {key: (GrowthSignal(), GrowthSignal()) for key in "ab"}
        for key, (tail, visible) in places.items():
            news.follow(key, (tail, True), (visible, False))
        places["b"][1].grew(10)
        assert list(news.keys) == ["b"]
        assert not await sleep_until_grown([news], 1, trio.current_time() + 1)

        async def grow() -> None:
            await trio.sleep(0.5)
            places["a"][0].grew(10)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(grow)
            assert await sleep_until_grown([news], 1, trio.current_time() + 1)
        assert list(news.keys) == ["b", "a"]
        news.close()
        news.keys.clear()
        places["a"][0].wake()
        assert list(news.keys) == []

    in_trio(story)


@pytest.mark.parametrize("grows", [False, True])
def test_a_session_that_is_closed_while_its_fetch_sleeps_leaves_nothing_behind(grows: bool) -> None:
    """A follower that hangs up opens a new session, which closes the old one; the old fetch may not have ended."""

    async def story() -> None:
        world = World(replicas=(1, 2))
        leader, follower = world.nodes[1], world.nodes[2]
        await world.replicate(3)
        watchers = leader.partition.tail.watcher_count, leader.partition.visible.watcher_count
        for _ in range(5):
            asked = follower.ask()
            assert asked is not None
            old = asked[2]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, leader, old)
                await trio.testing.wait_all_tasks_blocked()
                began = trio.current_time()
                if grows:
                    leader.produce(b"news")
                asked[1].disconnected()
                leader.fetching.sessions.close(old.session_id)
            assert trio.current_time() == began, "the old fetch went on sleeping"
            world.now_ms += 1000
            await world.replicate(3)
        assert len(leader.fetching.sessions) == 1
        assert (leader.partition.tail.watcher_count, leader.partition.visible.watcher_count) == watchers

    in_trio(story)


def test_waits_that_were_cancelled_are_removed() -> None:
    async def story() -> None:
        waiters, committed = CommitWaiters(), list[int]()

        async def wait(offset: int) -> None:
            await waiters.until(offset)
            committed.append(offset)

        async with trio.open_nursery() as nursery:
            for offset in range(10):
                nursery.start_soon(wait, offset)
            for offset in range(1000):
                with trio.move_on_after(1):
                    await waiters.until(offset % 20)
            assert len(waiters) <= 10 + 65
            waiters.advanced(4)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(committed) == [0, 1, 2, 3, 4]
            waiters.advanced(100)
        assert sorted(committed) == list(range(10))
        assert len(waiters) == 0

    in_trio(story)


def test_a_recreated_partition_replaces_the_tracked_one() -> None:
    news, old, new = ChangedPartitions(), GrowthSignal(), GrowthSignal()
    news.follow("a", (old, True))
    news.follow("a", (new, True))
    old.grew(1)
    assert list(news.keys) == []
    new.grew(1)
    assert list(news.keys) == ["a"]


def consumer_asks(offset: int | None, *, session_id: int = 0, epoch: int = 0, max_wait_ms: int = 0) -> FetchRequest:
    """A consumer's fetch; without an offset it names no partition, as in a session where nothing changed."""
    partitions = [] if offset is None else [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1000,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=partitions)] if partitions else [],
    )


def test_a_consumers_session_reads_only_partitions_with_news(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        leader = World(replicas=(1,)).nodes[1]
        leader.produce(b"first")
        reads = list[int]()
        read = leader.partition.read

        def counted(offset: int, **rest: Any) -> FetchResult:
            reads.append(offset)
            return read(offset, **rest)

        monkeypatch.setattr(leader.partition, "read", counted)
        session_id = (await ask(leader, consumer_asks(0))).session_id
        epochs = iter(range(1, 100))

        async def records(offset: int | None, max_wait_ms: int = 0) -> list[int]:
            """How many bytes of records are answered for each partition."""
            request = consumer_asks(offset, session_id=session_id, epoch=next(epochs), max_wait_ms=max_wait_ms)
            answer = await ask(leader, request)
            return [len(part.records or b"") for topic in answer.responses for part in topic.partitions]

        size_bytes = (await records(None))[0]
        assert size_bytes > 0
        assert await records(None) == [size_bytes], "what was not moved on is answered again"
        assert await records(1) == []
        reads.clear()
        for _ in range(3):
            assert await records(None) == []
        assert reads == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leader_produces, leader)
            assert await records(None, WAIT_MS) == [size_bytes]
        assert await records(2) == []
        leader.partition.delete_records(1)
        assert await records(None) == [0], "the log start has moved"
        assert await records(None) == []

    async def leader_produces(leader: Node) -> None:
        await trio.sleep(0.1)
        leader.produce(b"later")

    in_trio(story)


class LookedAt(OrderedDict[SessionKey, CachedPartition]):
    """The partitions of a session; counts those that are looked at."""

    count = 0

    def __getitem__(self, key: SessionKey) -> CachedPartition:
        self.count += 1
        return super().__getitem__(key)

    def get(self, key: SessionKey, default: Any = None) -> Any:
        self.count += 1
        return super().get(key, default)

    def __iter__(self) -> Iterator[SessionKey]:
        self.count += len(self)
        return super().__iter__()

    def values(self) -> Any:
        self.count += len(self)
        return super().values()

    def items(self) -> Any:
        self.count += len(self)
        return super().items()


def test_a_consumers_session_without_news_looks_at_none_of_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 partitions; of which 4,999 are stand-ins that never have news."""
    count = 5_000

    async def story() -> None:
        leader = World(replicas=(1,)).nodes[1]
        topic = leader.image.topics[TOPIC]
        topic.partitions.extend(topic.partitions * (count - 1))
        others = World(replicas=(1,)).nodes[1].partition
        monkeypatch.setattr(fetch, "_find", lambda cached, *_: others if cached.partition else leader.partition)
        request = consumer_asks(0)
        request.topics[0].partitions = [
            FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1000) for number in range(count)
        ]
        session_id = (await ask(leader, request)).session_id
        [session] = leader.fetching.sessions._sessions.values()
        await ask(leader, consumer_asks(None, session_id=session_id, epoch=1))
        looked = session.partitions = LookedAt(session.partitions)
        for epoch in range(2, 10):
            looked.count = 0
            answer = await ask(leader, consumer_asks(None, session_id=session_id, epoch=epoch))
            assert (answer.responses, looked.count) == ([], 0)
        leader.produce(b"news")
        answer = await ask(leader, consumer_asks(None, session_id=session_id, epoch=10))
        assert [part.partition_index for part in answer.responses[0].partitions] == [0]
        assert looked.count < 5

    in_trio(story)


def test_what_grows_during_the_pauses_of_a_fetch_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fetch lets others run after it has read the partition; it must not sleep through what they appended."""

    async def story() -> None:
        leader = World(replicas=(1,)).nodes[1]
        request = consumer_asks(0, max_wait_ms=60_000)
        request.session_epoch = -1
        began = trio.current_time()
        fill = fetch.fill

        def fill_and_grow(answer: PartitionData, found: FetchResult) -> None:
            fill(answer, found)
            monkeypatch.setattr(fetch, "fill", fill)
            leader.produce(b"meanwhile")

        monkeypatch.setattr(fetch, "fill", fill_and_grow)
        answer = await ask(leader, request)
        assert len(answer.responses[0].partitions[0].records or b"")
        assert trio.current_time() == began

    in_trio(story)
