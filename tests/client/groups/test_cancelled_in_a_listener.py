"""A request that is cancelled within a listener's call, and still cleans up, does not hold up the next request."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Listener
from minikafka.protocol.messages.leave_group import LeaveGroupRequest
from minikafka.protocol.names import TopicPartition

TP = TopicPartition("t", 0)


class Slow(Listener):
    """Takes 30 s for the first call, and 3 s to clean up after its cancellation; the second call takes 12 s."""

    def __init__(self) -> None:
        self.calls = 0

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls += 1
        if self.calls > 1:
            await trio.sleep(12)
            return
        try:
            await trio.sleep(30)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_next_request_makes_the_call_again(protocol: str) -> None:
    async def story() -> None:
        cluster, listener = ScriptedCluster(t=1), Slow()
        cluster.assigned = [TP]
        expected = cluster.append(TP, 3)
        async with (
            cluster.consumer(group_id="g", group_protocol=protocol, max_poll_interval_ms=8_000) as consumer,
            trio.open_nursery() as nursery,
        ):
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
            with trio.fail_after(20):
                found = await consumer.poll(3_000)
                found = found or await consumer.poll(3_000)
            assert [record.value for record in found] == expected
            assert listener.calls == 2
            assert not cluster.of(LeaveGroupRequest)

    on_virtual_time(story)
