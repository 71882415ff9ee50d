"""Reading up to now (`stop_at="end"`) of a log that becomes shorter than it was."""

from __future__ import annotations

import logging

import pytest
import trio
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import TopicPartition
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.fetch import FetchRequest

TP = TopicPartition("a", 0)


async def read_shortened(cluster: ScriptedCluster, left: int, again_after_s: float | None) -> list[bytes]:
    """What is read of ten records up to the end, of which `left` are there when fetches succeed.

    Args:
        again_after_s: when the others are there again; never if it is None.
    """
    written = cluster.append(TP, 10)
    cluster.fail(FetchRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER, TP)
    found: list[bytes] = []
    async with cluster.consumer(stop_at="end", default_api_timeout_ms=20_000) as consumer, trio.open_nursery() as tasks:
        consumer.assign([TP])

        async def change() -> None:
            await trio.sleep(1)
            cluster.truncate(TP, left)
            cluster.mend()
            if again_after_s is not None:
                await trio.sleep(again_after_s)
                cluster.logs[cluster.ids["a"]][0] += written[left:]
                cluster.wake()

        tasks.start_soon(change)
        with trio.fail_after(60):
            async for record in consumer:
                found.append(record.value)
        assert consumer.at_end()
    return found


@pytest.mark.parametrize("left", [1, 5, 9])
def test_an_iteration_ends_though_the_log_ends_before(left: int, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        assert len(await read_shortened(cluster, left, None)) == left

    with caplog.at_level(logging.WARNING, "minikafka.client"):
        on_virtual_time(story)
    said = f"a-0 ends at offset {left}, and ended at offset 10 when it was assigned"
    waits = [one for one in caplog.messages if "still waiting: records of a-0" in one]
    assert said in waits[0]
    assert [one for one in caplog.messages if "lost" in one] == [f"the log has lost records: {said}"]


@pytest.mark.parametrize("after_s", [0.5, 5, 15])
def test_records_that_come_again_are_read(after_s: float, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        assert len(await read_shortened(cluster, 5, after_s)) == 10

    on_virtual_time(story)
    assert not [one for one in caplog.messages if "lost" in one]
