"""A listener's callback may unsubscribe, whatever it is called for: each partition is told of once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import trio
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, Listener, TopicPartition
from minikafka.protocol.error_codes import ErrorCode

TPS = [TopicPartition("t", index) for index in range(3)]
CALLS_MAX = 10


class Leaving(Listener):
    """Unsubscribes in the callbacks that a test names, and keeps what it was told."""

    def __init__(self, *names: str) -> None:
        self.consumer: Consumer | None = None
        self.names = names
        self.told: list[tuple[str, list[TopicPartition]]] = []

    async def _call(self, name: str, partitions: Sequence[TopicPartition]) -> None:
        self.told.append((name, sorted(partitions)))
        assert len(self.told) < CALLS_MAX
        if name in self.names:
            assert self.consumer is not None
            await self.consumer.unsubscribe()

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call("assigned", partitions)

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call("revoked", partitions)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call("lost", partitions)


async def unsubscribe(cluster: ScriptedCluster, consumer: Consumer) -> None:
    await consumer.unsubscribe()


async def rebalance(cluster: ScriptedCluster, consumer: Consumer) -> None:
    cluster.rebalance(TPS[0])
    await consumer.poll(5_000)


async def removal(cluster: ScriptedCluster, consumer: Consumer) -> None:
    cluster.heartbeats = ErrorCode.UNKNOWN_MEMBER_ID
    await consumer.poll(5_000)


async def end(cluster: ScriptedCluster, consumer: Consumer) -> None:
    pass


CASES: dict[str, tuple[Callable[..., object], list[tuple[str, list[TopicPartition]]]]] = {
    "unsubscribe": (unsubscribe, [("revoked", TPS)]),
    "end": (end, [("revoked", TPS)]),
    "rebalance": (rebalance, [("revoked", TPS[1:]), ("revoked", TPS[:1])]),
    "removal": (removal, [("lost", TPS)]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_callback_that_tells_of_losses_unsubscribes(case: str) -> None:
    cause, told = CASES[case]

    async def story() -> None:
        cluster, listener = ScriptedCluster(t=3), Leaving("revoked", "lost")
        cluster.assigned = TPS
        options = {"partition_assignment_strategy": ["cooperative-sticky"]}
        async with cluster.consumer(group_id="g", **options) as consumer:
            listener.consumer = consumer
            await consumer.subscribe(["t"], listener=listener)
            await consumer.poll(500)
            with trio.fail_after(20):
                await cause(cluster, consumer)  # type: ignore[misc]
            if cause is not end:
                assert consumer.assignment() == []
        assert listener.told == [("assigned", TPS), *told]

    on_virtual_time(story)


def test_a_callback_that_tells_of_an_assignment_unsubscribes_and_so_does_the_one_that_follows() -> None:
    async def story() -> None:
        cluster, listener = ScriptedCluster(t=3), Leaving("assigned", "revoked")
        cluster.assigned = TPS
        async with cluster.consumer(group_id="g") as consumer:
            listener.consumer = consumer
            await consumer.subscribe(["t"], listener=listener)
            await consumer.poll(500)
            assert consumer.assignment() == []
            listener.names = ()
            await consumer.subscribe(["t"], listener=listener)
            await consumer.poll(500)
            assert consumer.assignment() == TPS
        assert [name for name, _ in listener.told] == ["assigned", "revoked", "assigned", "revoked"]

    on_virtual_time(story)
