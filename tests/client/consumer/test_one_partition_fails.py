"""The error of one partition, whatever it is, holds up no other, and is either raised or logged as a wait."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.scripted_cluster import LEADER_EPOCH, ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, TopicPartition
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.protocol.messages.list_offsets import ListOffsetsRequest
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest
from minikafka.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

GOOD, BAD = TopicPartition("a", 0), TopicPartition("b", 0)
SEARCHES = [ListOffsetsRequest, OffsetFetchRequest]
CODES = [code for code in ErrorCode if code]


async def read(consumer: Consumer, wanted: dict[TopicPartition, int], for_s: float) -> list[KafkaError]:
    """Read until as many records as wanted have come of each partition; the errors that were raised."""
    errors: list[KafkaError] = []
    left = dict(wanted)
    with trio.fail_after(for_s):
        while any(count > 0 for count in left.values()):
            try:
                for record in await consumer.poll(1_000):
                    tp = TopicPartition(record.topic, record.partition)
                    left[tp] = left.get(tp, 0) - 1
            except KafkaError as error:
                errors.append(error)
    return errors


async def watch(consumer: Consumer, for_s: float) -> list[KafkaError]:
    errors: list[KafkaError] = []
    end = trio.current_time() + for_s
    while trio.current_time() < end:
        try:
            await consumer.poll(500)
        except KafkaError as error:
            errors.append(error)
    return errors


def two_topics() -> ScriptedCluster:
    cluster = ScriptedCluster(a=1, b=1)
    cluster.append(GOOD, 3)
    cluster.append(BAD, 3)
    return cluster


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FetchRequest, *SEARCHES], ids=lambda one: one.__name__)
def test_the_other_partition_is_read_at_once_whatever_the_error(kind: Any) -> None:
    async def story(code: ErrorCode) -> None:
        cluster = two_topics()
        cluster.fail(kind, code, BAD)
        async with cluster.consumer(group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([BAD, GOOD])
            await read(consumer, {GOOD: 3}, 3)

    for code in CODES:
        on_virtual_time(story, code)


@pytest.mark.parametrize("kind", [FetchRequest, ListOffsetsRequest], ids=lambda one: one.__name__)
def test_many_partitions_that_fail_again_and_again_leave_time_for_the_others(kind: Any) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=1, b=50)
        many = [TopicPartition("b", one) for one in range(50)]
        for tp in many:
            cluster.fail(kind, ErrorCode.TOPIC_AUTHORIZATION_FAILED, tp)
        async with cluster.consumer() as consumer:
            consumer.assign([*many, GOOD])
            for _ in range(20):
                cluster.append(GOOD, 1)
                began = trio.current_time()
                errors = await read(consumer, {GOOD: 1}, 5)
                assert len(errors) <= 2 + 2 * (trio.current_time() - began), "one per topic and second"
                await trio.sleep(0.1)

    on_virtual_time(story)


def test_records_that_are_there_come_after_each_error() -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=1, b=50)
        many = [TopicPartition("b", one) for one in range(50)]
        cluster.append(GOOD, 10)
        async with cluster.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([*many, GOOD])
            consumer.seek(GOOD, 0)
            await trio.sleep(1)
            with pytest.raises(KafkaError, match="no start offset for b"):
                await consumer.poll(1_000)
            assert len(await consumer.poll(1_000)) == 10
            for _ in range(49):
                with pytest.raises(KafkaError, match="no start offset for b"):
                    await consumer.poll(1_000)

    on_virtual_time(story)


@pytest.mark.slow
def test_the_other_partition_is_read_on_whatever_error_the_comparison_of_positions_has() -> None:
    async def story(code: ErrorCode) -> None:
        cluster = two_topics()
        async with cluster.consumer(group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([BAD, GOOD])
            await read(consumer, {GOOD: 3, BAD: 3}, 5)
            cluster.fail(OffsetForLeaderEpochRequest, code, BAD)
            cluster.leader_epoch = LEADER_EPOCH + 1
            await trio.sleep(2)
            cluster.append(GOOD, 3)
            await read(consumer, {GOOD: 3}, 5)

    for code in CODES:
        on_virtual_time(story, code)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SEARCHES, ids=lambda one: one.__name__)
def test_an_error_is_raised_if_it_is_for_good_and_else_logged_until_it_ends(
    kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(code: ErrorCode) -> None:
        cluster = two_topics()
        cluster.fail(kind, code, BAD)
        async with cluster.consumer(group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([BAD, GOOD])
            await read(consumer, {GOOD: 3}, 3)
            errors = await watch(consumer, 4)
            waits = [one.getMessage() for one in caplog.records if "still waiting" in one.getMessage()]
            assert any("finding start offsets of b-0" in one and str(error_for(code)) in one for one in waits), waits
            if error_for(code).retriable:
                assert not errors
            else:
                assert {one.code for one in errors} == {code}
                assert len(errors) <= 6  # it is asked for again about once a second
            assert all("b-0" in str(one) for one in errors)
            cluster.mend()
            await read(consumer, {BAD: 3}, 3)

    for code in CODES:
        if kind is OffsetFetchRequest and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue  # a group may have committed offsets of a topic that does not exist
        caplog.clear()
        on_virtual_time(story, code)


def test_a_retriable_error_that_lasts_is_raised_after_the_time_out_of_calls() -> None:
    async def story() -> None:
        cluster = two_topics()
        cluster.fail(ListOffsetsRequest, ErrorCode.LEADER_NOT_AVAILABLE, BAD)
        async with cluster.consumer(default_api_timeout_ms=5_000) as consumer:
            consumer.assign([BAD, GOOD])
            errors = await watch(consumer, 13)
            assert [one.code for one in errors] == [ErrorCode.LEADER_NOT_AVAILABLE] * 2
            assert "finding start offsets of b-0 did not succeed within 5000 ms" in str(errors[0])

    on_virtual_time(story)


def test_partitions_that_fail_together_are_asked_for_together() -> None:
    async def story() -> None:
        cluster = ScriptedCluster(t=50)
        tps = [TopicPartition("t", index) for index in range(50)]
        for tp in tps:
            cluster.fail(ListOffsetsRequest, ErrorCode.LEADER_NOT_AVAILABLE, tp)
        async with cluster.consumer() as consumer:
            consumer.assign(tps)
            await watch(consumer, 5)
            assert 5 <= len(cluster.of(ListOffsetsRequest)) <= 15

    on_virtual_time(story)


def test_a_partition_without_committed_offset_and_reset_holds_up_no_other() -> None:
    async def story() -> None:
        cluster = two_topics()
        cluster.committed[cluster.ids["a"], 0] = 1
        async with cluster.consumer(group_id="g", auto_offset_reset="none", enable_auto_commit=False) as consumer:
            consumer.assign([BAD, GOOD])
            errors = await read(consumer, {GOOD: 2}, 3)
            errors += await watch(consumer, 3)
            assert [str(one).partition(":")[0] for one in errors] == ["no start offset for b-0"]
            consumer.seek(BAD, 0)
            await read(consumer, {BAD: 3}, 3)

    on_virtual_time(story)


def test_with_stop_at_one_end_that_cannot_be_had_holds_up_no_other() -> None:
    async def story() -> None:
        cluster = two_topics()
        cluster.fail(ListOffsetsRequest, ErrorCode.LEADER_NOT_AVAILABLE, BAD)
        async with cluster.consumer(stop_at="end") as consumer:
            consumer.assign([BAD, GOOD])
            consumer.seek(BAD, 0)
            await read(consumer, {GOOD: 3}, 3)
            cluster.mend()
            await read(consumer, {BAD: 3}, 3)
            assert consumer.at_end()

    on_virtual_time(story)
