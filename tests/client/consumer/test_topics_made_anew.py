"""A topic that is deleted and made anew while it is read: the new one's records come once each, from the first on."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import trio
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError
from minikafka.protocol.messages.offset_commit import OffsetCommitRequest
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest
from minikafka.protocol.names import TopicPartition

A, OTHER = TopicPartition("a", 0), TopicPartition("a", 1)


async def assigned(cluster: ScriptedCluster, consumer: Consumer) -> None:
    consumer.assign([A, OTHER])


async def subscribed(cluster: ScriptedCluster, consumer: Consumer) -> None:
    cluster.assigned = [A, OTHER]
    await consumer.subscribe(["a"])


WAYS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "assign without a group": (assigned, {}),
    "assign": (assigned, {"group_id": "g", "auto_commit_interval_ms": 300}),
    "subscribe without a group": (subscribed, {}),
    "subscribe": (subscribed, {"group_id": "g", "auto_commit_interval_ms": 300}),
}


async def values(consumer: Consumer, timeout_ms: float) -> list[bytes]:
    return [record.value for record in await consumer.poll(timeout_ms)]


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_the_new_records_are_read_once_each(way: str, reset: str) -> None:
    """Whether the new log is shorter or longer than the position, and however long there was no topic."""
    begin, options = WAYS[way]

    async def story(seed: int) -> None:
        chance = Random(seed)
        cluster = ScriptedCluster(a=2)
        async with cluster.consumer(auto_offset_reset=reset, **options) as consumer:
            await begin(cluster, consumer)
            await consumer.poll(500)
            for _ in range(4):
                taken: list[bytes] = []
                expected: list[bytes] = []
                for _ in range(chance.randrange(6)):
                    expected += cluster.append(chance.choice([A, OTHER]), chance.randrange(1, 8))
                    taken += await values(consumer, chance.choice([0, 50, 700]))
                while some := await values(consumer, 2_500):
                    taken += some
                assert sorted(taken) == sorted(expected), f"seed {seed}"
                check_commits(cluster)
                cluster.delete("a")
                await trio.sleep(chance.choice([0, 0, 0.01, 1.5, 5]))
                cluster.create("a", 2)
                if options.get("group_id") and chance.random() < 0.5:
                    cluster.rebalance(A, OTHER)

    for seed in range(50):
        on_virtual_time(story, seed)


def check_commits(cluster: ScriptedCluster) -> None:
    """No offset is beyond the end of its topic's log, as one of the deleted topic would often be."""
    for topic_id, partition, offset in cluster.commits:
        if topic_id in cluster.logs:
            assert offset <= len(cluster.logs[topic_id][partition])


def test_with_reset_none_the_application_decides() -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        cluster.append(A, 5)
        async with cluster.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([A])
            consumer.seek(A, 2)
            assert len(await values(consumer, 1_000)) == 3
            cluster.delete("a")
            cluster.create("a")
            expected = cluster.append(A, 9)
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.poll(5_000)
            consumer.seek(A, 0)
            assert await values(consumer, 1_000) == expected

    on_virtual_time(story)


def test_what_was_read_of_the_deleted_topic_is_not_committed_for_the_new_one() -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        cluster.append(A, 5)
        async with cluster.consumer(group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([A])
            records = await consumer.poll(1_000)
            cluster.fail(OffsetCommitRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(refused, consumer, {A: 4})  # It is tried again until there is another topic.
                await trio.sleep(1)
                cluster.delete("a")
                cluster.create("a")
                cluster.mend()
            cluster.append(A, 3)
            await trio.sleep(3)
            await refused(consumer, records[-1])
            await refused(consumer, {A: 5})
            assert len(await consumer.poll(1_000)) == 3
            await consumer.commit({A: 2})
            await consumer.commit()
            assert [offset for topic_id, _, offset in cluster.commits if topic_id == cluster.ids["a"]] == [2, 3]

    on_virtual_time(story)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("first", ["member", "coordinator"])
def test_no_offset_of_the_deleted_topic_is_used_whoever_hears_of_the_new_one_first(protocol: str, first: str) -> None:
    """A coordinator that has not heard of the deletion has the offsets of the deleted topic."""

    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        cluster.assigned = [A]
        cluster.append(A, 5)
        cluster.committed[cluster.ids["a"], 0] = 5
        before = dict(cluster.ids)
        if first == "coordinator":
            cluster.fail(OffsetFetchRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            cluster.delete("a")
            cluster.create("a")
            cluster.known_to_coordinator = before
        options: dict[str, Any] = {"group_id": "g", "group_protocol": protocol, "metadata_max_age_ms": 60_000}
        async with cluster.consumer("a", **options) as consumer:
            assert not await consumer.poll(2_000)
            if first == "coordinator":
                cluster.delete("a")
                cluster.create("a")
            expected = cluster.append(A, 9)
            assert first == "coordinator" or not await consumer.poll(1_000)
            cluster.mend()
            cluster.known_to_coordinator = None
            with trio.fail_after(20):
                assert await values(consumer, 20_000) == expected

    on_virtual_time(story)


async def refused(consumer: Consumer, offsets: Any) -> None:
    with pytest.raises(UnknownTopicOrPartitionError):
        await consumer.commit(offsets)
