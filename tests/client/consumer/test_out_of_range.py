"""An offset that is out of range: what was fetched before it is returned first, and without a reset the position stays,
and each request raises the error until a seek, as with Kafka's Java client."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.scripted_cluster import ALWAYS, ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, TopicPartition
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import OffsetOutOfRangeError
from minikafka.protocol.messages.fetch import FetchRequest

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
READS: dict[str, Any] = {
    "poll": lambda consumer: consumer.poll(2_000, 1),
    "for": lambda consumer: anext(aiter(consumer)),
    "batches": lambda consumer: anext(consumer.batches()),
}


def two_topics() -> ScriptedCluster:
    cluster = ScriptedCluster(a=1, b=1)
    cluster.append(A, 3)
    cluster.append(B, 3)
    return cluster


@pytest.mark.parametrize("read", READS)
def test_each_request_raises_it_until_a_seek_and_the_position_stays(read: str) -> None:
    async def story() -> None:
        cluster = two_topics()
        async with cluster.consumer(auto_offset_reset="none", group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([A])
            consumer.seek(A, 99)
            for _ in range(3):
                with pytest.raises(OffsetOutOfRangeError, match="offset 99 of a-0 is out of range"):
                    await READS[read](consumer)
                assert await consumer.position(A) == 99
            await consumer.commit()
            assert cluster.committed_of(A) == 99
            consumer.seek(A, 1)
            assert await READS[read](consumer)

    on_virtual_time(story)


def test_it_is_asked_for_again_only_once_it_was_raised() -> None:
    async def story() -> None:
        cluster = two_topics()
        async with cluster.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([A])
            consumer.seek(A, 99)
            await trio.sleep(60)
            assert len(cluster.of(FetchRequest)) == 1
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.poll(1_000)
            await trio.sleep(60)
            assert len(cluster.of(FetchRequest)) == 2

    on_virtual_time(story)


def test_records_of_other_partitions_come_in_between() -> None:
    async def story() -> None:
        cluster = two_topics()
        seen: list[int] = []
        async with cluster.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([A, B])
            consumer.seek(A, 99)
            consumer.seek(B, 0)
            for _ in range(20):
                try:
                    seen += [one.offset for one in await consumer.poll(1_000, 1)]
                except OffsetOutOfRangeError:
                    continue
        assert seen == [0, 1, 2]

    on_virtual_time(story)


def test_it_is_over_once_the_log_is_that_long() -> None:
    async def story() -> None:
        cluster = two_topics()
        async with cluster.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([A])
            consumer.seek(A, 4)
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.poll(1_000)
            cluster.append(A, 2)
            assert [one.offset for one in await consumer.poll(1_000)] == [4]

    on_virtual_time(story)


async def ahead(cluster: ScriptedCluster, consumer: Consumer) -> None:
    """Have three records fetched, and the fetch behind them refused."""
    consumer.assign([A])
    consumer.seek(A, 0)
    while not cluster.of(FetchRequest):
        await trio.sleep(0.01)
    cluster.fail(FetchRequest, ErrorCode.OFFSET_OUT_OF_RANGE, A, times=ALWAYS)
    await trio.sleep(3)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("reset", ["none", "earliest", "latest"])
def test_what_was_fetched_before_is_returned_first(reset: str, read: str) -> None:
    async def story() -> None:
        cluster = two_topics()
        async with cluster.consumer(auto_offset_reset=reset) as consumer:
            await ahead(cluster, consumer)
            fetches = len(cluster.of(FetchRequest))
            await trio.sleep(10)
            seen: list[int] = []
            for _ in range(1 if read == "batches" else 3):
                found = await READS[read](consumer)
                seen += [found.offset] if read == "for" else [one.offset for one in found]
                if len(seen) < 3:
                    assert len(cluster.of(FetchRequest)) == fetches, "not asked for again before"
            assert seen == [0, 1, 2]
            if reset == "none":
                with pytest.raises(OffsetOutOfRangeError, match="offset 3 of a-0"):
                    await READS[read](consumer)
                return
            cluster.mend()
            values = cluster.append(A, 1)
            assert [one.value for one in await consumer.poll(5_000)] == values

    on_virtual_time(story)
