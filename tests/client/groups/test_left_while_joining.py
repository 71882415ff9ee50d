"""A consumer that is left at any moment of its join leaves no member behind, which would keep the partitions."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
import trio
from support.coordinated_cluster import CoordinatedCluster, coordinated
from support.fake_network import FakeBroker, FakeStream
from support.scripted_cluster import on_virtual_time

from minikafka.client import Consumer
from minikafka.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from minikafka.protocol.names import TopicPartition

TP, OTHER = TopicPartition("a", 0), TopicPartition("a", 1)
LATENCY_S = 0.05
"""That of the connection after the first, on which a member joins: what is sent on another one is earlier there."""


class SlowStream(FakeStream):
    """A connection whose requests take a time to arrive."""

    def __init__(self, receiver: Any, broker: FakeBroker) -> None:
        super().__init__(receiver, broker)
        self._under_way: deque[bytes] = deque()

    def write(self, data: bytes) -> None:
        self._under_way.append(bytes(data))
        trio.lowlevel.spawn_system_task(self._arrive)

    async def _arrive(self) -> None:
        await trio.sleep(LATENCY_S)
        super().write(self._under_way.popleft())


def slow_second_connection(cluster: CoordinatedCluster) -> None:
    original, count = cluster.open_stream, len(cluster.brokers[0].streams)

    async def open_stream(host: str, port: int, receiver: Any, task_group: Any) -> FakeStream:
        if len(cluster.brokers[0].streams) != count + 1:
            return await original(host, port, receiver, task_group)
        stream = SlowStream(receiver, cluster.brokers[0])
        cluster.brokers[0].streams.append(stream)
        return stream

    cluster.open_stream = open_stream  # type: ignore[method-assign]


async def members(cluster: CoordinatedCluster) -> int:
    request = ConsumerGroupDescribeRequest(group_ids=["g"])
    response = await cluster.node.ask("ConsumerGroupDescribe", 0, request)
    return len(response.groups[0].members)


async def begin(consumer: Consumer) -> None:
    """The block's only statement."""


async def unsubscribe(consumer: Consumer) -> None:
    await consumer.unsubscribe()
    await trio.sleep(1)


MOMENTS = [(0.0, turns) for turns in range(40)] + [(step * LATENCY_S / 2, 0) for step in range(1, 12)]
"""Seconds, and turns of the loop, from the begin of the block."""
MOMENTS += [(LATENCY_S, 0)] * 10  # The join is sent in the same round: each story has another order of tasks.


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("end", [begin, unsubscribe])
@pytest.mark.parametrize("slow", [False, True])
def test_the_next_member_gets_the_partitions(slow: bool, end: Any, static: bool) -> None:
    async def story(after_s: float, turns: int) -> None:
        """Leave so long after the consumer was entered."""
        async with coordinated(a=2) as cluster:
            if slow:
                slow_second_connection(cluster)
            options = {"group_instance_id": "i"} if static else {}
            async with cluster.consumer("a", group_id="g", group_protocol="consumer", **options) as consumer:
                await trio.sleep(after_s)
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                await end(consumer)
            await trio.sleep(1)
            if not static:
                assert await members(cluster) == 0, f"after {after_s} s and {turns} turns"
            async with cluster.consumer("a", group_id="g", group_protocol="consumer", **options) as consumer:
                cluster.append(TP)
                assert await consumer.poll(8_000), f"after {after_s} s and {turns} turns"

    for after_s, turns in MOMENTS:
        on_virtual_time(story, after_s, turns)


@pytest.mark.parametrize("end", [begin, unsubscribe])
@pytest.mark.parametrize("slow", [False, True])
def test_a_classic_group_does_not_wait_for_a_member_that_left_before_it_had_a_member_id(slow: bool, end: Any) -> None:
    """A group with members waits in its next rebalance for those to whom it has given an id, as Kafka's does."""

    async def story(after_s: float, turns: int) -> None:
        """Leave so long after the second consumer was entered."""
        async with coordinated(a=2) as cluster, cluster.consumer("a", group_id="g") as steady:
            cluster.append(TP)
            assert await steady.poll(8_000)
            if slow:
                slow_second_connection(cluster)
            async with cluster.consumer("a", group_id="g") as consumer:
                await trio.sleep(after_s)
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                await end(consumer)
            await trio.sleep(1)
            async with cluster.consumer("a", group_id="g", auto_offset_reset="earliest") as consumer:
                cluster.append(TP)
                cluster.append(OTHER)
                assert await consumer.poll(8_000), f"after {after_s} s and {turns} turns"

    for after_s, turns in MOMENTS:
        on_virtual_time(story, after_s, turns)
