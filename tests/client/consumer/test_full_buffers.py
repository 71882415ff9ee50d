"""A consumer with full buffers whose application is busy: it does not keep brokers busy with other partitions."""

from __future__ import annotations

import pytest
import trio
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import TopicPartition
from minikafka.protocol.messages.fetch import FetchRequest

FULL, OTHER = TopicPartition("a", 0), TopicPartition("b", 0)


@pytest.mark.parametrize("busy_s", [10, 60, 600])
def test_fetches_become_rare_while_nobody_asks_for_records(busy_s: int) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=1, b=1)
        async with cluster.consumer() as consumer:
            consumer.assign([FULL, OTHER])
            for _ in range(3):
                cluster.append(FULL, 2)
                await consumer.poll(1_000, max_records=1)
            for _ in range(3):
                cluster.append(FULL, 2)
                await trio.sleep(1)
            before = len(cluster.of(FetchRequest))
            await trio.sleep(busy_s)
            assert len(cluster.of(FetchRequest)) - before < 100 + 2 * busy_s
            cluster.append(OTHER, 1)
            with trio.fail_after(2):
                while not any(record.topic == "b" for record in await consumer.poll(1_000)):
                    pass

    on_virtual_time(story)
