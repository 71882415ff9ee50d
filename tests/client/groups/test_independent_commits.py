"""Commits of one partition neither hold up nor undo those of another, nor later ones of the same."""

from __future__ import annotations

import pytest
import trio
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, UnknownTopicOrPartitionError
from minikafka.protocol.messages.offset_commit import OffsetCommitRequest
from minikafka.protocol.names import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
CODES = [one for one in ErrorCode if one is not ErrorCode.NONE]
GROUP_CODES = (
    ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_AUTHORIZATION_FAILED,
)  # fmt: skip


async def reading(cluster: ScriptedCluster, consumer: Consumer) -> None:
    """Have a position in each partition, after all records."""
    consumer.assign([A, B])
    wanted = {tp: len(cluster.logs[cluster.ids[tp.topic]][0]) for tp in (A, B)}
    while consumer.positions() != wanted:
        await consumer.poll(1_000)


def two_topics() -> ScriptedCluster:
    cluster = ScriptedCluster(a=1, b=1)
    cluster.append(A, 3)
    cluster.append(B, 3)
    return cluster


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES, ids=lambda one: one.name)
def test_an_error_of_one_partition_is_its_own(code: ErrorCode) -> None:
    """Whatever the error: the other partition is committed at once, and goes on to be."""

    async def story() -> None:
        cluster = two_topics()
        async with cluster.consumer(group_id="g", enable_auto_commit=False, default_api_timeout_ms=10_000) as consumer:
            await reading(cluster, consumer)
            cluster.fail(OffsetCommitRequest, code, B)
            with pytest.raises(KafkaError) as raised:
                await consumer.commit({A: 1, B: 1})
            assert raised.value.code is code
            assert "b-0" in str(raised.value)
            assert trio.current_time() <= (11 if code.retriable else 1)
            assert cluster.commits == [(cluster.ids["a"], 0, 1)]  # once: it is not sent again with the other one
            cluster.mend()
            await consumer.commit({A: 2, B: 2})
            assert (cluster.committed_of(A), cluster.committed_of(B)) == (2, 2)

    on_virtual_time(story)


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES, ids=lambda one: one.name)
def test_automatic_commits_go_on_whatever_one_partition_is_answered(code: ErrorCode) -> None:
    async def story() -> None:
        cluster = two_topics()
        async with cluster.consumer(group_id="g", auto_commit_interval_ms=1_000) as consumer:
            await reading(cluster, consumer)
            cluster.fail(OffsetCommitRequest, code, B)
            for _ in range(5):
                cluster.append(A)
                await consumer.poll(1_000)
                await consumer.poll()
                await trio.sleep(1.5)
                assert cluster.committed_of(A) == consumer.positions()[A]
            cluster.mend()
            await trio.sleep(1.5)
            assert cluster.committed_of(B) == 3

    on_virtual_time(story)


@pytest.mark.parametrize("code", [one for one in CODES if one.retriable], ids=lambda one: one.name)
def test_a_commit_that_is_retried_does_not_undo_a_later_one(code: ErrorCode) -> None:
    """Also if the later one has ended before."""

    async def story() -> None:
        cluster = two_topics()
        async with cluster.consumer(group_id="g", enable_auto_commit=False, retry_backoff_ms=1_000) as consumer:
            await reading(cluster, consumer)
            cluster.fail(OffsetCommitRequest, code, A, times=1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(consumer.commit, {A: 1, B: 1})
                await trio.sleep(0.5)
                await consumer.commit({A: 3})
                await consumer.commit({B: 2})
            assert (cluster.committed_of(A), cluster.committed_of(B)) == (3, 2)
            for tp in (A, B):
                offsets = [offset for topic, _, offset in cluster.commits if topic == cluster.ids[tp.topic]]
                assert offsets == sorted(offsets)

    on_virtual_time(story)


@pytest.mark.parametrize("explicit", [False, True])
def test_a_topic_that_is_deleted_does_not_hold_up_commits(explicit: bool) -> None:
    async def story() -> None:
        cluster = two_topics()
        async with cluster.consumer(group_id="g", enable_auto_commit=False) as consumer:
            await reading(cluster, consumer)
            cluster.delete("b")
            began = trio.current_time()
            if explicit:
                with pytest.raises(UnknownTopicOrPartitionError, match="b-0"):
                    await consumer.commit({A: 3, B: 3})
            else:
                await consumer.commit()
            assert trio.current_time() - began < 1
            assert cluster.committed_of(A) == 3

    on_virtual_time(story)


def test_a_topic_that_is_being_made_is_waited_for() -> None:
    """Its coordinator may learn of it later than the application, which has no position in it yet."""

    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        async with cluster.consumer(group_id="g", enable_auto_commit=False) as consumer, trio.open_nursery() as nursery:
            nursery.start_soon(consumer.commit, {B: 7})
            await trio.sleep(1)
            cluster.create("b")
        assert cluster.committed_of(B) == 7

    on_virtual_time(story)


def test_offsets_of_an_idle_reader_are_committed_again() -> None:
    """Without members a group's offsets expire some time after they were committed."""

    async def story() -> None:
        cluster = two_topics()
        async with cluster.consumer(group_id="g", auto_commit_interval_ms=1_000) as consumer:
            await reading(cluster, consumer)
            await consumer.poll()
            await trio.sleep(1.5)
            cluster.committed.clear()
            await trio.sleep(2.1)
            assert (cluster.committed_of(A), cluster.committed_of(B)) == (3, 3)

    on_virtual_time(story)
