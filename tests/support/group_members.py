"""What tests of groups with a real broker share: topics with records, recorded callbacks, waiting for a balance."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from minikafka.client import Admin, Consumer, Listener, Producer, TopicPartition

__all__ = ["RecordingListener", "fill", "settled"]


async def fill(bootstrap: str, topic: str, partitions: int, count: int) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic, partitions=partitions)
    async with Producer(bootstrap_servers=bootstrap) as producer:
        assert len(await producer.partitions_for(topic)) == partitions  # the topic exists at the broker now
        for n in range(count):
            await producer.send(topic, b"%d" % n, partition=n % partitions)


class RecordingListener(Listener):
    """Records a member's rebalance callbacks."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []

    def note(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        self.events.append((what, [tp.partition for tp in partitions]))

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.note("assigned", partitions)

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.note("revoked", partitions)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.note("lost", partitions)


async def settled(*consumers: Consumer, total: int) -> list[int]:
    """Wait until the members have this many partitions in total, balanced; return each member's count.

    The topic is empty: polls return nothing, and call listeners.
    """
    with anyio.fail_after(60):
        while True:
            for consumer in consumers:
                assert await consumer.poll() == []
            counts = [len(consumer.assignment()) for consumer in consumers]
            if sum(counts) == total and max(counts) - min(counts) <= 1:
                return counts
            await anyio.sleep(0.02)
