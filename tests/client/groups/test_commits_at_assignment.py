"""A listener commits what it is assigned, also the partitions that come back: with the membership that it has now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import trio
from support.coordinated_cluster import coordinated
from support.scripted_cluster import on_virtual_time

from minikafka.client import Consumer, Listener, TopicPartition, blocking
from minikafka.protocol.errors import IllegalGenerationError, StaleMemberEpochError

PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {},
    "cooperative": {"partition_assignment_strategy": ("cooperative-sticky",)},
    "consumer": {"group_protocol": "consumer"},
}
FIRST = 5
TPS = [TopicPartition("a", 0), TopicPartition("a", 1)]


class Committing(Listener):
    """Commits each partition that is assigned: an offset that is higher each time, as if read from elsewhere."""

    def __init__(self, consumer: Consumer) -> None:
        self.committed: dict[TopicPartition, int] = {}
        self._consumer = consumer

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        offsets = {tp: self.committed.get(tp, FIRST) + 1 for tp in partitions}
        await self._consumer.commit(offsets)
        self.committed |= offsets


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("reads", [False, True])
def test_a_partition_that_comes_back_is_committed_when_it_is_assigned(protocol: str, reads: bool) -> None:
    """Another member had it meanwhile. Kafka's client commits with the generation or epoch that it has."""

    async def until(consumer: Consumer, count: int) -> None:
        with trio.fail_after(120):
            while len(consumer.assignment()) != count:
                await consumer.poll(100)

    async def story() -> None:
        options = {"group_id": "g", "enable_auto_commit": False, **PROTOCOLS[protocol]}
        async with coordinated(a=2) as cluster, cluster.consumer(auto_offset_reset="earliest", **options) as consumer:
            for tp in TPS if reads else ():
                cluster.append(tp, 20)
            listener = Committing(consumer)
            await consumer.subscribe(["a"], listener=listener)
            await until(consumer, 2)
            seams = replace(cluster.seams(), random=Random(2))  # Members make their ids.
            async with cluster.consumer("a", seams=seams, **options) as other:
                await until(consumer, 1)
                await until(other, 1)
            await until(consumer, 2)
            await consumer.poll(100)
            assert max(listener.committed.values()) > FIRST + 1, "one came back"
            committed = await consumer.committed()
            assert {tp: one.offset for tp, one in committed.items()} == listener.committed

    on_virtual_time(story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_was_returned_before_another_member_had_the_partition_is_not_committed(protocol: str) -> None:
    """The partition is back, and no records were requested since: the commit would undo one of the other member."""

    async def story() -> None:
        options = {"group_id": "g", "enable_auto_commit": False, **PROTOCOLS[protocol]}
        async with coordinated(a=2) as cluster, cluster.consumer("a", **options) as consumer:
            for tp in TPS:
                cluster.append(tp, 5)
            returned = 0
            while returned < 10:
                returned += len(await consumer.poll(5_000))
            for tp in TPS:
                cluster.append(tp, 20)
            seams = replace(cluster.seams(), random=Random(2))
            async with cluster.consumer("a", seams=seams, **options) as other:
                while len(other.assignment()) != 1:
                    await trio.sleep(0.1)
                (moved,) = other.assignment()
                await other.commit({moved: 20})
            await trio.sleep(20)
            assert consumer.assignment() == TPS
            with pytest.raises((IllegalGenerationError, StaleMemberEpochError)):
                await consumer.commit()
            assert (await consumer.committed(moved))[moved].offset == 20

    on_virtual_time(story)


class Telling(Listener):
    """Waits at each assignment until another task has done what it does meanwhile."""

    def __init__(self) -> None:
        self.told: trio.Event | None = None
        self.done = trio.Event()

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if self.told is not None:
            self.told.set()
            await self.done.wait()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_commit_of_another_task_beside_the_listener_is_one_of_the_records(protocol: str) -> None:
    """It may be of records that were returned before another member had the partition."""

    async def story() -> None:
        options = {"group_id": "g", "enable_auto_commit": False, **PROTOCOLS[protocol]}
        refused: list[type[BaseException]] = []

        async def commit(consumer: Consumer, listener: Telling, told: trio.Event) -> None:
            await told.wait()
            try:
                await consumer.commit(dict.fromkeys(TPS, 1))
            except (IllegalGenerationError, StaleMemberEpochError) as error:
                refused.append(type(error))
            listener.done.set()

        async with (
            coordinated(a=2) as cluster,
            cluster.consumer(auto_offset_reset="earliest", **options) as consumer,
            trio.open_nursery() as tasks,
        ):
            listener = Telling()
            await consumer.subscribe(["a"], listener=listener)
            for tp in TPS:
                cluster.append(tp, 5)
            while len(consumer.assignment()) != 2:
                await consumer.poll(100)
            await consumer.poll(100)
            seams = replace(cluster.seams(), random=Random(2))
            async with cluster.consumer("a", seams=seams, **options) as other:
                while not other.assignment() or len(consumer.assignment()) != 1:
                    await consumer.poll(100)
                    await other.poll(100)
            listener.told = trio.Event()
            tasks.start_soon(commit, consumer, listener, listener.told)
            with trio.fail_after(120):
                while not listener.done.is_set():
                    await consumer.poll(100)
            assert len(refused) == 1

    on_virtual_time(story)


class CommittingBlocked(blocking.Listener):
    """`Committing`, on the thread of the application."""

    def __init__(self, consumer: blocking.Consumer) -> None:
        self.times = 0
        self._consumer = consumer

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.times += 1
        self._consumer.commit(dict.fromkeys(partitions, self.times))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_blocking_listener_commits_what_comes_back(minikafka_bootstrap: str, topic: str, protocol: str) -> None:
    options: dict[str, Any] = {
        "bootstrap_servers": minikafka_bootstrap,
        "group_id": topic,
        "enable_auto_commit": False,
        **PROTOCOLS[protocol],
    }
    if protocol != "consumer":
        options["heartbeat_interval_ms"] = 50

    def until(*consumers: blocking.Consumer, count: int) -> None:
        while any(len(one.assignment()) != count for one in consumers):
            for one in consumers:
                one.poll(20)

    with blocking.Admin(minikafka_bootstrap) as admin:
        admin.create_topic(topic, partitions=2)
    with blocking.Consumer(**options) as consumer:
        listener = CommittingBlocked(consumer)
        consumer.subscribe([topic], listener=listener)
        until(consumer, count=2)
        with blocking.Consumer(topic, **options) as other:
            until(consumer, other, count=1)
        until(consumer, count=2)
        consumer.poll(20)
        assert listener.times > 1
        assert listener.times in [one.offset for one in consumer.committed().values() if one is not None]
