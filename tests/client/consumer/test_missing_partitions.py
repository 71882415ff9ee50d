"""A partition that does not exist is not asked for in silence for ever: an error says so after a time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork
from support.scripted_cluster import ScriptedCluster, on_virtual_time
from trio.testing import MockClock

from minikafka.client import Consumer, TopicPartition
from minikafka.protocol.error_codes import ErrorCode
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


MEMBERS: dict[str, dict[str, Any]] = {
    "alone": {},
    "classic": {"group_id": "g"},
    "consumer": {"group_id": "g", "group_protocol": "consumer"},
}


@pytest.mark.parametrize("other", [False, True], ids=["only", "of two"])
@pytest.mark.parametrize("records", [0, 3])
@pytest.mark.parametrize("kind", MEMBERS)
def test_a_wait_for_records_of_a_topic_that_is_deleted_is_logged_until_it_is_made_anew(
    kind: str, records: int, other: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def waits() -> list[str]:
        said = [one.getMessage() for one in caplog.records if "still waiting" in one.getMessage()]
        caplog.clear()
        return said

    async def story() -> None:
        cluster = ScriptedCluster(t=1, u=1)
        topics = ["t", "u"] if other else ["t"]
        cluster.assigned = [TopicPartition(name, 0) for name in topics]
        cluster.append(TopicPartition("t", 0), records)
        async with cluster.consumer(*topics, **MEMBERS[kind]) as consumer:
            await consumer.poll(3_000)
            cluster.delete("t")
            cluster.assigned.remove(TopicPartition("t", 0))
            waits()
            with trio.move_on_after(8):
                await poll(consumer)
            assert any("records of" in one and "topic 't' does not exist: create it" in one for one in waits())
            cluster.create("t")
            cluster.assigned.append(TopicPartition("t", 0))
            cluster.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS
            with trio.move_on_after(8):
                await poll(consumer)
            waits()
            with trio.move_on_after(14):
                await poll(consumer)
            assert not waits()

    on_virtual_time(story)
