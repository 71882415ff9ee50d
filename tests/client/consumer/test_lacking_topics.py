"""Metadata that lack a topic for a while: each record is returned once, nothing ends early, and no group rejoins.

A broker that is behind, or that starts, answers so. Only a topic that all answers lack for seconds counts as deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from support.coordinated_cluster import coordinated
from support.fake_network import Later
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer
from minikafka.client.connections.cluster_metadata import Metadata
from minikafka.client.consumer.lacking_topics import LackingTopics
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.names import TopicPartition

PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 1)]
Topics = list[MetadataResponseTopic]


def failing(code: ErrorCode) -> Callable[[Topics], Topics]:
    return lambda topics: [MetadataResponseTopic(name=one.name, error_code=code) for one in topics]


def with_partitions(choose: Callable[[list[Any]], list[Any]]) -> Callable[[Topics], Topics]:
    def change(topics: Topics) -> Topics:
        for one in topics:
            one.partitions = choose(one.partitions)
        return topics

    return change


ODD: dict[str, Callable[[Topics], Topics]] = {
    "unknown": failing(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "no leader": failing(ErrorCode.LEADER_NOT_AVAILABLE),
    "not allowed": failing(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    "absent": lambda topics: [],
    "no partitions": with_partitions(lambda all_of_them: []),
    "a gap": with_partitions(lambda all_of_them: all_of_them[1:]),
    "fewer partitions": with_partitions(lambda all_of_them: all_of_them[:1]),
}
CLASSIC = {"group_id": "g", "heartbeat_interval_ms": 500}
WAYS: dict[str, dict[str, Any]] = {
    "assign": {},
    "alone": {},
    "alone, pattern": {},
    "range": CLASSIC,
    "range, pattern": CLASSIC,
    "cooperative": {**CLASSIC, "partition_assignment_strategy": ["cooperative-sticky"]},
    "consumer": {"group_id": "g", "group_protocol": "consumer"},
    "consumer, pattern": {"group_id": "g", "group_protocol": "consumer"},
}
odd = pytest.mark.parametrize("what", ODD)
ways = pytest.mark.parametrize("way", WAYS)


async def subscribe(consumer: Consumer, way: str) -> None:
    if way == "assign":
        consumer.assign(PARTITIONS)
    elif way.endswith("pattern"):
        await consumer.subscribe(pattern="a")
    else:
        await consumer.subscribe(["a"])


def answers_oddly(cluster: ScriptedCluster, what: str, times: int) -> None:
    """The next so many Metadata responses are odd."""
    left = [ODD[what]] * times

    def metadata(request: Any, version: int) -> Any:
        response = cluster.metadata(request, version)
        if left:
            response.topics = left.pop()(response.topics)
        return response

    cluster.brokers[0].handlers[MetadataRequest] = metadata


def append(cluster: ScriptedCluster) -> list[bytes]:
    return [value for tp in PARTITIONS for value in cluster.append(tp, 2)]


async def values(consumer: Consumer, ms: float) -> list[bytes]:
    found: list[bytes] = []
    until = trio.current_time() + ms / 1000
    while (left_ms := (until - trio.current_time()) * 1000) > 0:
        found += [record.value or b"" for record in await consumer.poll(left_ms)]
    return sorted(found)


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("reset", ["earliest", "latest"])
@ways
@odd
def test_each_record_is_returned_once(what: str, way: str, reset: str, times: int) -> None:
    async def story() -> None:
        async with (
            coordinated(a=2) as cluster,
            cluster.consumer(auto_offset_reset=reset, enable_auto_commit=False, **WAYS[way]) as consumer,
        ):
            await subscribe(consumer, way)
            await values(consumer, 6_000)
            expected = append(cluster)
            assert await values(consumer, 1_000) == sorted(expected)
            joins = len(cluster.of(JoinGroupRequest))
            answers_oddly(cluster, what, times)
            await consumer.cluster.refresh()
            expected = append(cluster)
            assert await values(consumer, 6_000) == sorted(expected)
            assert consumer.assignment() == PARTITIONS
            assert len(cluster.of(JoinGroupRequest)) == joins

    on_virtual_time(story)


@pytest.mark.parametrize("way", ["consumer", "consumer, pattern"])
@odd
def test_under_the_consumer_protocol_the_coordinator_alone_revokes(what: str, way: str) -> None:
    """However long the metadata lack the topic: here for two heartbeats and more."""

    async def story() -> None:
        async with (
            coordinated(a=2) as cluster,
            cluster.consumer(enable_auto_commit=False, **WAYS[way]) as consumer,
        ):
            await subscribe(consumer, way)
            expected = append(cluster)
            assert await values(consumer, 6_000) == sorted(expected)
            answers_oddly(cluster, what, 1_000)
            await consumer.cluster.refresh()
            for _ in range(12):
                await values(consumer, 1_000)
                assert consumer.assignment() == PARTITIONS
            answers_oddly(cluster, what, 0)
            expected = append(cluster)
            assert await values(consumer, 6_000) == sorted(expected)

    on_virtual_time(story)


@ways
@odd
def test_reading_up_to_the_end_does_not_end_before(what: str, way: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whether the answers come while it reads, or before it has begun to."""

    async def story(begins: bool) -> None:
        async with (
            coordinated(a=2) as cluster,
            cluster.consumer(enable_auto_commit=False, stop_at="end", **WAYS[way]) as consumer,
        ):
            expected, found = append(cluster), list[bytes]()
            if begins:
                answers_oddly(cluster, what, 3)
            await subscribe(consumer, way)
            async for record in consumer:
                found.append(record.value or b"")
                if len(found) == 1 and not begins:
                    answers_oddly(cluster, what, 3)
                    await consumer.cluster.refresh()
            assert sorted(found) == sorted(expected)

    on_virtual_time(story, False)
    if what not in ("not allowed", "unknown", "absent") and not (what == "fewer partitions" or "pattern" in way):
        on_virtual_time(story, True)
    assert "without a partition" not in caplog.text


@pytest.mark.parametrize("way", ["range", "cooperative", "consumer"])
@odd
def test_a_commit_meanwhile_is_a_commit(what: str, way: str) -> None:
    async def story() -> None:
        async with (
            coordinated(a=2) as cluster,
            cluster.consumer(enable_auto_commit=False, **WAYS[way]) as consumer,
        ):
            await subscribe(consumer, way)
            append(cluster)
            await values(consumer, 6_000)
            answers_oddly(cluster, what, 1)
            await consumer.cluster.refresh()
            await consumer.commit()
            committed = await consumer.committed(*PARTITIONS)
            assert {tp: one.offset for tp, one in committed.items()} == dict.fromkeys(PARTITIONS, 2)

    on_virtual_time(story)


@pytest.mark.parametrize("way", ["alone, pattern", "range", "range, pattern", "cooperative"])
def test_a_topic_that_is_gone_for_seconds_was_deleted(way: str) -> None:
    async def story() -> None:
        async with (
            coordinated(a=2, other=1) as cluster,
            cluster.consumer(enable_auto_commit=False, **WAYS[way]) as consumer,
        ):
            await subscribe(consumer, way)
            await values(consumer, 6_000)
            cluster.delete("a")
            await values(consumer, 4_000)
            assert consumer.assignment() == PARTITIONS
            await values(consumer, 4_000)
            assert consumer.assignment() == []
            asked = len(cluster.of(MetadataRequest))
            if "pattern" in way:
                await values(consumer, 60_000)
                assert len(cluster.of(MetadataRequest)) - asked <= 61  # metadata_max_age_ms is a second here

    on_virtual_time(story)


def test_a_group_whose_leader_never_knew_a_topic_does_not_wait_for_it() -> None:
    async def story() -> None:
        async with coordinated(b=1) as cluster, cluster.consumer(stop_at="end", **CLASSIC) as consumer:
            await consumer.subscribe(["a", "b"])
            cluster.append(TopicPartition("b", 0), 3)
            with trio.fail_after(20):
                assert [record.value async for record in consumer] == [b"0", b"1", b"2"]
            assert len(cluster.of(HeartbeatRequest)) > 1

    on_virtual_time(story)


def answer(name: str, partitions: int, code: int = 0, topic_id: bytes = b"1" * 16) -> MetadataResponse:
    indexes = [MetadataResponsePartition(partition_index=index, leader_id=1) for index in range(partitions)]
    topic = MetadataResponseTopic(name=name, topic_id=topic_id, partitions=indexes, error_code=code)
    return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="a", port=1)], topics=[topic])


@pytest.mark.parametrize(("topic_id", "kept"), [(b"1" * 16, 3), (b"2" * 16, 1)])
def test_the_partitions_of_a_topic_never_become_fewer_until_it_is_made_anew(topic_id: bytes, kept: int) -> None:
    metadata = Metadata()
    metadata.apply(answer("a", 3), ["a"])
    metadata.apply(answer("a", 1, topic_id=topic_id), ["a"])
    assert len(metadata.topics["a"].partitions) == kept
    assert (metadata.behind > 0) == (kept == 3)


def test_a_topic_counts_as_deleted_once_all_answers_of_some_seconds_say_so() -> None:
    metadata, unknown = Metadata(), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    lacking = LackingTopics(metadata, 5)
    steps: list[tuple[float, int, bool, bool]] = [  # when, the error, whether it may exist, whether it is deleted
        (0, 0, False, False),
        (1, unknown, True, False),
        (5.9, unknown, True, False),
        (6, unknown, False, True),
        (7, 0, False, False),
        (8, unknown, True, False),
        (9, int(ErrorCode.LEADER_NOT_AVAILABLE), True, False),
        (99, int(ErrorCode.LEADER_NOT_AVAILABLE), True, False),
        (100, unknown, True, False),
        (105, unknown, False, True),
    ]
    for now, code, may_exist, is_deleted in steps:
        metadata.apply(answer("a", 0 if code else 1, code), ["a"])
        assert lacking.update(["a"], now) == may_exist
        assert (lacking.may_exist("a"), lacking.is_deleted("a")) == (may_exist, is_deleted)
    assert not lacking.is_deleted("never read")


@pytest.mark.parametrize("silent", ["brokers silent", "brokers away"])
@ways
def test_an_outage_after_one_answer_that_lacks_the_topic_deletes_nothing(silent: str, way: str) -> None:
    """Silence for longer than the patience is no proof: a commit is sent, and waits for the coordinator."""

    async def story() -> None:
        async with (
            coordinated(a=2) as cluster,
            cluster.consumer(enable_auto_commit=False, request_timeout_ms=2_000, **WAYS[way]) as consumer,
        ):
            await subscribe(consumer, way)
            append(cluster)
            await values(consumer, 6_000)
            answers_oddly(cluster, "unknown", 1)
            await consumer.cluster.refresh()
            handlers = dict(cluster.brokers[0].handlers)
            cluster.brokers[0].handlers[MetadataRequest] = lambda request, version: Later()
            if silent == "brokers away":
                cluster.brokers[0].handlers.update(dict.fromkeys(handlers, lambda request, version: Later()))
            await trio.sleep(12)
            assert consumer.assignment() == PARTITIONS
            if "group_id" in WAYS[way]:
                async with trio.open_nursery() as tasks:
                    tasks.start_soon(consumer.commit)
                    await trio.sleep(3)
                    cluster.brokers[0].handlers.update(handlers)
                committed = await consumer.committed(*PARTITIONS)
                assert {tp: one.offset for tp, one in committed.items()} == dict.fromkeys(PARTITIONS, 2)

    on_virtual_time(story)


def test_positions_in_a_deleted_topic_are_left_out_of_a_commit_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with coordinated(a=2) as cluster, cluster.consumer(enable_auto_commit=False, group_id="g") as consumer:
            consumer.assign(PARTITIONS)
            append(cluster)
            await values(consumer, 6_000)
            cluster.delete("a")
            await values(consumer, 8_000)
            caplog.clear()
            await consumer.commit()

    on_virtual_time(story)
    for one in ("a-0, 2", "a-1, 2"):
        assert f"position not committed, as the partition was deleted: {one}" in caplog.text
