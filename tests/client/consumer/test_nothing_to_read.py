"""A consumer that was not told what to read says so, whatever it is asked for records with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, Listener, Producer, TopicPartition


async def polls(consumer: Consumer) -> None:
    while True:
        await consumer.poll(100)


READS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "async for": lambda consumer: anext(aiter(consumer)),
    "batches": lambda consumer: anext(consumer.batches()),
    "arrow_batches": lambda consumer: anext(consumer.arrow_batches()),
    "poll": lambda consumer: consumer.poll(60_000),
    "polls": polls,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "alone": {},
    "group": {"group_id": "nothing"},
    "consumer protocol": {"group_id": "nothing848", "group_protocol": "consumer"},
    "unsubscribed": {},
}


@pytest.mark.slow
@pytest.mark.anyio
async def test_who_waits_without_having_chosen_is_told(
    minikafka_bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    cases = {f"{read} {kind}": (READS[read], kind) for read in READS for kind in OPTIONS}

    async def case(name: str) -> None:
        read, kind = cases[name]
        async with Consumer(bootstrap_servers=minikafka_bootstrap, **OPTIONS[kind]) as consumer:
            if kind == "unsubscribed":
                consumer.assign([(topic, 0)])
                await consumer.unsubscribe()
            await read(consumer)

    def told() -> int:
        return sum("no topics or partitions are chosen: call subscribe()" in one.getMessage() for one in caplog.records)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for name in cases:
                tasks.start_soon(case, name)
            while told() < len(cases):
                await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()
    assert told() == len(cases), "each consumer says it once"


@pytest.mark.slow
@pytest.mark.anyio
async def test_who_has_chosen_is_not_told(
    minikafka_bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Producer(minikafka_bootstrap) as producer:
        await producer.send(topic, b"x")
    async with (
        Consumer(bootstrap_servers=minikafka_bootstrap) as none,
        Consumer(bootstrap_servers=minikafka_bootstrap) as later,
    ):
        none.assign([])
        later.assign([(topic, 0)])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(none.poll, 2_500)
            tasks.start_soon(later.poll, 2_500)
    assert "are chosen" not in caplog.text


@pytest.mark.parametrize("group", [{}, {"group_id": "g"}], ids=["alone", "group"])
def test_a_pattern_that_matches_no_topic_is_named_until_one_does(
    group: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(other=1)
        async with cluster.consumer(**group) as consumer:
            await consumer.subscribe(pattern="wanted.*")
            await consumer.poll(14_000)
            said = [one.getMessage() for one in caplog.records if "still waiting" in one.getMessage()]
            assert len(said) == 2
            assert all("records: no topic matches pattern 'wanted.*'" in one for one in said)
            caplog.clear()
            cluster.create("wanted-1")
            cluster.assigned = [TopicPartition("wanted-1", 0)]
            await consumer.poll(14_000)
            assert "no topic matches" not in caplog.text

    on_virtual_time(story)


SEEKS: dict[str, Callable[[Consumer], Any]] = {
    "seek": lambda one: one.seek(TopicPartition("t", 0), 0),
    "seek_to_beginning": lambda one: one.seek_to_beginning(),
    "seek_to_end": lambda one: one.seek_to_end(),
    "seek_to_time": lambda one: one.seek_to_time(0),
    "seek_to_time of one": lambda one: one.seek_to_time(0, TopicPartition("t", 0)),
}


@pytest.mark.parametrize("seek", SEEKS)
@pytest.mark.parametrize("kind", [*OPTIONS, "pattern"])
def test_a_seek_before_anything_is_assigned_is_refused(kind: str, seek: str) -> None:
    """It would have no effect: the assignment comes later, with the committed positions."""

    async def story() -> None:
        cluster = ScriptedCluster(t=1)
        cluster.assigned = [TopicPartition("t", 0)]
        async with cluster.consumer(**OPTIONS.get(kind, {"group_id": "g"})) as consumer:
            if "group" in kind or "protocol" in kind:
                await consumer.subscribe(["t"])
            elif kind == "unsubscribed":
                await consumer.subscribe(["t"])
                await consumer.unsubscribe()
            elif kind == "pattern":
                await consumer.subscribe(pattern="x.*")
            with pytest.raises(ValueError, match="assigned to this consumer"):
                assert await SEEKS[seek](consumer) is None

    on_virtual_time(story)


def test_seeks_of_what_is_assigned_are_allowed_and_those_of_a_listener() -> None:
    class Seeking(Listener):
        consumer: Consumer
        calls = 0

        async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            self.consumer.seek_to_beginning()
            self.consumer.seek_to_end()
            await self.consumer.seek_to_time(0)
            self.calls += 1

    async def story() -> None:
        for assigned in ([TopicPartition("t", 0)], []):
            cluster = ScriptedCluster(t=1)
            cluster.assigned = assigned
            seeking = Seeking()
            async with cluster.consumer(group_id="g") as seeking.consumer:
                await seeking.consumer.subscribe(["t"], listener=seeking)
                await seeking.consumer.poll(14_000)
                assert seeking.calls == 1
                if assigned:
                    seeking.consumer.seek_to_beginning()

    on_virtual_time(story)


def test_topics_and_a_pattern_exclude_each_other() -> None:
    async def story() -> None:
        async with ScriptedCluster(t=1).consumer() as consumer:
            with pytest.raises(ValueError, match="topics or a pattern, not both"):
                await consumer.subscribe(["t"], pattern="u.*")
            assert consumer.assignment() == []

    on_virtual_time(story)


@pytest.mark.parametrize("kind", ["nothing", "none", "pattern", "pattern in a group", "no partition of the group"])
def test_reading_up_to_the_end_of_nothing_is_said(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(t=1)
        cluster.assigned = []
        async with cluster.consumer(**({"group_id": "g"} if "group" in kind else {}), stop_at="end") as consumer:
            if kind == "none":
                consumer.assign([])
            elif "pattern" in kind:
                await consumer.subscribe(pattern="wanted.*")
            elif kind != "nothing":
                await consumer.subscribe(["t"])
            assert [one async for one in consumer] == []
            assert await consumer.poll(1_000) == []

    on_virtual_time(story)
    said = [one.getMessage() for one in caplog.records if "without a partition" in one.getMessage()]
    why = {
        "nothing": "no topics or partitions are chosen",
        "none": "assign()",
        "no partition of the group": "group 'g'",
    }
    assert len(said) == 1
    assert why.get(kind, "no topic matches pattern 'wanted.*'") in said[0]
