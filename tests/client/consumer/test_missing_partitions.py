"""A partition that does not exist is not asked for in silence for ever: an error says so after a time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork
from trio.testing import MockClock

from minikafka.client import Consumer, TopicPartition
from minikafka.protocol.errors import UnknownTopicOrPartitionError


async def iterate(consumer: Consumer) -> None:
    async for _ in consumer:
        pass


async def poll(consumer: Consumer) -> None:
    while True:
        await consumer.poll(1_000)


READS: dict[str, Any] = {"iterate": iterate, "poll": poll, "position": lambda one: one.position(*one.assignment())}


@pytest.mark.parametrize("tp", [TopicPartition("t", 7), TopicPartition("u", 0)], ids=str)
@pytest.mark.parametrize("sought", [False, True], ids=["assigned", "sought"])
@pytest.mark.parametrize("read", READS)
def test_reading_a_partition_that_does_not_exist_raises(tp: TopicPartition, sought: bool, read: str) -> None:
    if sought and read == "position":
        pytest.skip("the position is where it was sought to")
    network = FakeNetwork({"t": [1, 1]})
    network.broker("a", 1)
    text = "topic 't' has no partition 7: it has 0 to 1" if tp.topic == "t" else "topic 'u' does not exist"

    async def main() -> None:
        async with Consumer(bootstrap_servers="a:1", seams=network.seams(), default_api_timeout_ms=5_000) as consumer:
            consumer.assign([tp])
            if sought:
                consumer.seek(tp, 0)
            for _ in range(2):
                with trio.fail_after(12), pytest.raises(UnknownTopicOrPartitionError, match=text):
                    await READS[read](consumer)

    trio.run(main, clock=MockClock(autojump_threshold=0))
