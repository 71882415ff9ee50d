"""What is done for each element of a large request, or for each connection, lets other tasks run in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from minikafka.broker.apis import metadata, produce
from minikafka.broker.connections.idle_connections import CHECK_INTERVAL_S, close_idle_connections
from minikafka.broker.connections.pauses import EVERY, Pauses
from minikafka.protocol.elements import BYTES_PER_ELEMENT
from minikafka.protocol.messages.metadata import MetadataRequestTopic
from minikafka.protocol.messages.produce import PartitionProduceData, TopicProduceData

MANY = 10 * EVERY


class StepCounter(trio.abc.Instrument):
    """Counts the steps of each task by its name."""

    def __init__(self) -> None:
        self.steps = Counter[str]()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps[task.name] += 1


async def names_of_metadata() -> None:
    topics = [MetadataRequestTopic(name=f"topic-{number}") for number in range(MANY)]
    assert len((await metadata._requested(topics, Pauses()))[1]) == MANY


async def partitions_of_produce() -> None:
    data = [PartitionProduceData(index=index, records=None) for index in range(MANY)]
    assert not await produce._any_is_transactional([TopicProduceData(name="t", partition_data=data)], Pauses())


async def idle_connections() -> None:
    connections: Any = {QuietConnection(): None for _ in range(MANY)}
    with trio.move_on_after(1.5 * CHECK_INTERVAL_S):
        await close_idle_connections(connections, -1)


async def long_names() -> None:
    pause = Pauses()
    for _ in range(MANY // EVERY):
        await pause("n" * EVERY * BYTES_PER_ELEMENT)


class QuietConnection:
    busy = False

    def is_idle(self, longer_than_s: float) -> bool:
        return False

    def is_in_the_way(self, longer_than_s: float, rate_min: float) -> bool:
        return False


@pytest.mark.parametrize("work", [names_of_metadata, partitions_of_produce, idle_connections, long_names])
def test_others_run_in_between(work: Callable[[], Awaitable[None]]) -> None:
    counter = StepCounter()
    trio.run(work, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[counter])
    assert counter.steps[f"{__name__}.{work.__name__}"] >= MANY // EVERY
