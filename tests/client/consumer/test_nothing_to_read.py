"""A consumer that was not told what to read says so, whatever it is asked for records with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, Producer, TopicPartition


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
