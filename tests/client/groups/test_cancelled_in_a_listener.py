"""A request that is cancelled within a listener's call, and still cleans up, does not hold up the next request."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, Listener
from minikafka.protocol.messages.leave_group import LeaveGroupRequest
from minikafka.protocol.names import TopicPartition

TP = TopicPartition("t", 0)


class Slow(Listener):
    """Takes 30 s for the first call, 3 s to clean up after its cancellation, and `second_s` for the second call."""

    def __init__(self, second_s: float) -> None:
        self.calls = 0
        self._second_s = second_s

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls += 1
        if self.calls > 1:
            await trio.sleep(self._second_s)
            return
        try:
            await trio.sleep(30)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)


async def poll_in_a_listener(consumer: Consumer, listener: Slow, nursery: trio.Nursery) -> None:
    """Begin a poll, and cancel it within the listener's call, where it cleans up while others go on."""
    await consumer.subscribe(["t"], listener=listener)
    scope = trio.CancelScope()

    async def cancelled() -> None:
        with scope:
            await consumer.poll(60_000)

    nursery.start_soon(cancelled)
    while not listener.calls:
        await trio.sleep(0.1)
    scope.cancel()
    await trio.sleep(0.1)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_next_request_makes_the_call_again(protocol: str) -> None:
    async def story() -> None:
        cluster, listener = ScriptedCluster(t=1), Slow(second_s=12)
        cluster.assigned = [TP]
        expected = cluster.append(TP, 3)
        async with (
            cluster.consumer(group_id="g", group_protocol=protocol, max_poll_interval_ms=8_000) as consumer,
            trio.open_nursery() as nursery,
        ):
            await poll_in_a_listener(consumer, listener, nursery)
            with trio.fail_after(20):
                found = await consumer.poll(3_000)
                found = found or await consumer.poll(3_000)
            assert [record.value for record in found] == expected
            assert listener.calls == 2
            assert not cluster.of(LeaveGroupRequest)

    on_virtual_time(story)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_end_of_the_cancelled_request_is_not_that_of_the_next(protocol: str) -> None:
    """A member that waits for records is not late, however long it waits."""

    async def story() -> None:
        cluster, listener = ScriptedCluster(t=1), Slow(second_s=0)
        cluster.assigned = [TP]
        async with (
            cluster.consumer(group_id="g", group_protocol=protocol, max_poll_interval_ms=8_000) as consumer,
            trio.open_nursery() as nursery,
        ):
            await poll_in_a_listener(consumer, listener, nursery)
            assert not await consumer.poll(20_000)
            assert consumer.assignment()
            assert listener.calls == 2

    on_virtual_time(story)
