"""One task reads in several ways in turn: each record comes once, in order, and positions never go back."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from minikafka.client import Consumer, Producer, TopicPartition, blocking

BATCHES, SIZE = 12, 7
COUNT = BATCHES * SIZE
SEEDS = range(6)
WAYS = ("kept loop", "new loop", "kept batches", "poll", "poll all", "position", "commit")


async def fill(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap, linger_ms=0) as producer:
        for batch in range(BATCHES):
            await producer.send_many(topic, [b"%d" % number for number in range(batch * SIZE, (batch + 1) * SIZE)])
            await producer.flush()


def numbers(records: Any) -> list[int]:
    return [int(record.value) for record in records]


def choose(random: Random, ways: tuple[str, ...]) -> str:
    """Ways that return records are more frequent."""
    return random.choice(ways[:5] * 3 + ways[5:])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.anyio
async def test_a_task_that_loops_and_polls_gets_each_record_once(bootstrap: str, topic: str, seed: int) -> None:
    await fill(bootstrap, topic)
    random, read, tp = Random(seed), list[int](), TopicPartition(topic, 0)
    async with Consumer(
        topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        loop, batches, committed = aiter(consumer), aiter(consumer.batches()), -1
        while len(read) < COUNT:
            match choose(random, WAYS):
                case "kept loop":
                    read += numbers([await anext(loop)])
                case "new loop":
                    async for record in consumer:
                        read += numbers([record])
                        if random.random() < 0.5:
                            break
                        read += numbers(await consumer.poll(0, random.randint(1, 3)))
                        if len(read) == COUNT:
                            break
                case "kept batches":
                    read += numbers((await anext(batches)).records)
                case "poll":
                    read += numbers(await consumer.poll(1_000, random.randint(1, 10)))
                case "poll all":
                    read += numbers(await consumer.poll(0))
                case "position":
                    assert await consumer.position(tp) == len(read)
                case "commit":
                    await consumer.commit()
                    before, found = committed, await consumer.committed(tp)
                    committed = found[tp].offset if tp in found else -1
                    assert before <= committed <= len(read)
        assert read == list(range(COUNT))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_thread_that_loops_and_polls_gets_each_record_once(bootstrap: str, topic: str, seed: int) -> None:
    with blocking.Producer(bootstrap) as producer:
        for batch in range(BATCHES):
            producer.send_many(topic, [b"%d" % number for number in range(batch * SIZE, (batch + 1) * SIZE)])
            producer.flush()
    random, read, tp = Random(seed), list[int](), TopicPartition(topic, 0)
    with blocking.Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        while len(read) < COUNT:
            match choose(random, WAYS[:6]):
                case "kept loop":
                    read += numbers([next(iter(consumer))])
                case "new loop":
                    for record in consumer:
                        read += numbers([record])
                        if random.random() < 0.5:
                            break
                        read += numbers(consumer.poll(0, random.randint(1, 3)))
                        if len(read) == COUNT:
                            break
                case "kept batches":
                    read += numbers(next(iter(consumer.batches())).records)
                case "poll":
                    read += numbers(consumer.poll(1_000, random.randint(1, 10)))
                case "poll all":
                    read += numbers(consumer.poll(0))
                case "position":
                    assert consumer.position(tp) == len(read)
        assert read == list(range(COUNT))
