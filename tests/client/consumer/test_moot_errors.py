"""An error that was found in the background is not raised any more once a seek or another assignment has made it moot;
those of other partitions are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest
import trio
from support.scripted_cluster import LEADER_EPOCH, ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, TopicPartition
from minikafka.client.blocking import Consumer as BlockingConsumer
from minikafka.client.blocking import Producer as BlockingProducer
from minikafka.client.consumer.failures import Failures
from minikafka.client.consumer.partition_state import PartitionState
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import CorruptMessageError, KafkaError, OffsetOutOfRangeError
from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest
from minikafka.protocol.messages.list_offsets import ListOffsetsRequest
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest
from minikafka.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

A, B, GONE = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("gone", 0)
STEPS = 120
"""More than a lookup takes."""
FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED

Trouble = Callable[[ScriptedCluster, Consumer], Awaitable[None]]


def fails(kind: Any, code: ErrorCode = FORBIDDEN) -> Trouble:
    async def trouble(cluster: ScriptedCluster, consumer: Consumer) -> None:
        cluster.fail(kind, code, A)
        consumer.assign([A])

    return trouble


async def no_start_offset(cluster: ScriptedCluster, consumer: Consumer) -> None:
    consumer.assign([A])


async def out_of_range(cluster: ScriptedCluster, consumer: Consumer) -> None:
    consumer.assign([A])
    consumer.seek(A, 99)


async def truncated(cluster: ScriptedCluster, consumer: Consumer) -> None:
    consumer.assign([A])
    consumer.seek(A, 0)
    assert len(await consumer.poll(1_000)) == 3
    del cluster.logs[cluster.ids["a"]][0][1:]
    cluster.leader_epoch = LEADER_EPOCH + 1


async def incomparable(cluster: ScriptedCluster, consumer: Consumer) -> None:
    await consumer.poll(0)
    consumer.assign([A])
    assert len(await consumer.poll(1_000)) == 3
    cluster.fail(OffsetForLeaderEpochRequest, FORBIDDEN, A)
    cluster.leader_epoch = LEADER_EPOCH + 1


async def undecodable(cluster: ScriptedCluster, consumer: Consumer) -> None:
    consumer.assign([A])
    assert len(await consumer.poll(1_000)) == 1, "the second one is found to be undecodable, and raised next"


def one_value(value: bytes) -> bytes:
    if value == b"1":
        raise ValueError("not this one")
    return value


TROUBLES: dict[str, tuple[Trouble, dict[str, Any]]] = {
    "no start offset, no group": (no_start_offset, {"auto_offset_reset": "none"}),
    "no start offset, a group": (no_start_offset, {"auto_offset_reset": "none", "group_id": "g"}),
    "out of range": (out_of_range, {"auto_offset_reset": "none"}),
    "truncated": (truncated, {"auto_offset_reset": "none"}),
    "start offsets are forbidden": (fails(ListOffsetsRequest), {}),
    "start offsets take long": (
        fails(ListOffsetsRequest, ErrorCode.LEADER_NOT_AVAILABLE), {"default_api_timeout_ms": 2_000},
    ),
    "committed offsets are forbidden": (fails(OffsetFetchRequest), {"group_id": "g"}),
    "fetches are forbidden": (fails(FetchRequest), {}),
    "comparing is forbidden": (incomparable, {}),
    "undecodable": (undecodable, {"value_deserializer": one_value}),
}  # fmt: skip


async def seek(consumer: Consumer) -> None:
    consumer.seek(A, 2)


async def seek_to_beginning(consumer: Consumer) -> None:
    consumer.seek_to_beginning()


async def assign(consumer: Consumer) -> None:
    consumer.assign([B])


async def assign_again(consumer: Consumer) -> None:
    consumer.assign([])
    consumer.assign([A])
    consumer.seek(A, 2)


async def unsubscribe(consumer: Consumer) -> None:
    await consumer.unsubscribe()
    consumer.assign([B])
    consumer.seek(B, 0)


REMEDIES = [seek, seek_to_beginning, assign, assign_again, unsubscribe]


def two_topics() -> ScriptedCluster:
    cluster = ScriptedCluster(a=1, b=1)
    cluster.append(A, 3)
    cluster.append(B, 3)
    cluster.committed[cluster.ids["b"], 0] = 0
    return cluster


@pytest.mark.parametrize("remedy", REMEDIES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_an_error_that_was_found_is_not_raised_when_it_is_moot(trouble: str, remedy: Any) -> None:
    begin, options = TROUBLES[trouble]
    if remedy is assign and options.get("auto_offset_reset") == "none" and "group_id" not in options:
        pytest.skip("the other partition has no start offset either")

    async def story(after_s: float) -> None:
        cluster = two_topics()
        given = {"enable_auto_commit": False, **options} if "group_id" in options else options
        async with cluster.consumer(**given) as consumer:
            await begin(cluster, consumer)
            await trio.sleep(after_s)
            cluster.mend()
            await remedy(consumer)
            if trouble == "undecodable" and remedy is seek_to_beginning:
                consumer.seek(A, 2)
            if trouble == "truncated":
                cluster.append(A, 5)
            records = await consumer.poll(2_000)
            assert records
            assert {one.topic for one in records} == {"b" if remedy in (assign, unsubscribe) else "a"}

    for after_s in (0, 0.001, 0.5, 3):
        on_virtual_time(story, after_s)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_an_error_that_matters_is_raised(trouble: str) -> None:
    begin, options = TROUBLES[trouble]

    async def story() -> None:
        cluster = two_topics()
        async with cluster.consumer(**options) as consumer:
            await begin(cluster, consumer)
            await trio.sleep(3)
            with pytest.raises(KafkaError):
                await consumer.poll(1_000)

    on_virtual_time(story)


@pytest.mark.slow
@pytest.mark.parametrize("group_id", [None, "g"])
def test_a_seek_helps_at_every_moment_of_a_lookup(group_id: str | None) -> None:
    async def story(steps: int) -> int:
        cluster = two_topics()
        options: dict[str, Any] = {} if group_id is None else {"group_id": group_id, "enable_auto_commit": False}
        async with cluster.consumer(auto_offset_reset="none", **options) as consumer:
            consumer.assign([A])
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            found = len(consumer._failures._about)
            consumer.seek(A, 1)
            assert [one.offset for one in await consumer.poll(2_000)] == [1, 2]
            return found

    assert {on_virtual_time(story, steps) for steps in range(STEPS)} == {0, 1}, "before and after it was found"


def test_the_error_of_another_partition_is_still_raised_and_once() -> None:
    async def story(sought: TopicPartition, other: TopicPartition) -> None:
        cluster = two_topics()
        async with cluster.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([A, B])
            await trio.sleep(1)
            consumer.seek(sought, 0)
            with pytest.raises(OffsetOutOfRangeError, match=f"no start offset for {other}"):
                await consumer.poll(1_000)
            assert {one.topic for one in await consumer.poll(1_000)} == {sought.topic}
            assert await consumer.poll(1_000) == []

    on_virtual_time(story, A, B)
    on_virtual_time(story, B, A)


def test_each_partition_without_start_offset_is_named() -> None:
    async def story() -> None:
        cluster = two_topics()
        async with cluster.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([A, B])
            for tp in (A, B):
                with pytest.raises(OffsetOutOfRangeError, match=f"no start offset for {tp}"):
                    await consumer.poll(1_000)
                consumer.seek(tp, 0)

    on_virtual_time(story)


@pytest.mark.parametrize("missing", [GONE, TopicPartition("a", 7)])
@pytest.mark.parametrize("sought", [False, True])
def test_a_missing_partition_is_moot_once_it_is_given_up_and_not_by_a_seek(
    missing: TopicPartition, sought: bool
) -> None:
    async def story(given_up: bool) -> None:
        cluster = two_topics()
        async with cluster.consumer(default_api_timeout_ms=2_000) as consumer:
            consumer.assign([missing])
            if sought:
                consumer.seek(missing, 5)
            await trio.sleep(9)
            if given_up:
                consumer.assign([B])
                assert len(await consumer.poll(2_000)) == 3
                return
            consumer.seek(missing, 6)
            with pytest.raises(KafkaError):
                await consumer.poll(3_000)

    on_virtual_time(story, True)
    on_virtual_time(story, False)


def test_a_topic_that_exists_meanwhile_is_not_said_to_be_missing() -> None:
    async def story() -> None:
        cluster = two_topics()
        async with cluster.consumer(default_api_timeout_ms=20_000) as consumer:
            consumer.assign([GONE])
            await trio.sleep(15)
            assert consumer._failures
            cluster.create("gone")
            cluster.append(GONE, 3)
            await trio.sleep(5)
            assert len(await consumer.poll(2_000)) == 3

    on_virtual_time(story)


def test_the_error_of_a_membership_ends_with_the_subscription() -> None:
    async def story(unsubscribes: bool) -> None:
        cluster = two_topics()
        cluster.fail(JoinGroupRequest, ErrorCode.INVALID_SESSION_TIMEOUT)
        async with cluster.consumer("a", group_id="g", enable_auto_commit=False) as consumer:
            await trio.sleep(2)
            if not unsubscribes:
                with pytest.raises(KafkaError):
                    await consumer.poll(1_000)
                return
            await consumer.unsubscribe()
            consumer.assign([B])
            assert len(await consumer.poll(2_000)) == 3

    on_virtual_time(story, True)
    on_virtual_time(story, False)


@pytest.fixture
def filled(minikafka_bootstrap: str, topic: str) -> str:
    with BlockingProducer(minikafka_bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
    return topic


@pytest.mark.anyio
@pytest.mark.parametrize("group_id", [None, "g"])
async def test_offsets_that_are_kept_elsewhere(minikafka_bootstrap: str, filled: str, group_id: str | None) -> None:
    options: dict[str, Any] = {"auto_offset_reset": "none", "group_id": group_id and f"{filled}-{group_id}"}
    async with Consumer(bootstrap_servers=minikafka_bootstrap, **options) as consumer:
        consumer.assign([(filled, 0)])
        with anyio.fail_after(30):
            while not consumer._failures:
                await anyio.sleep(0.01)
        consumer.seek((filled, 0), 5)
        assert (await consumer.poll(30_000))[0].offset == 5


def test_offsets_that_are_kept_elsewhere_blocking(minikafka_bootstrap: str, filled: str) -> None:
    options: dict[str, Any] = {"auto_offset_reset": "none"}
    for _ in range(10):
        with BlockingConsumer(bootstrap_servers=minikafka_bootstrap, **options) as consumer:
            consumer.assign([(filled, 0)])
            consumer.seek((filled, 0), 5)
            assert consumer.poll(30_000)[0].offset == 5


def test_an_error_about_a_position_does_not_take_the_place_of_one_of_another_kind() -> None:
    """What is to happen when it is raised, as that the offset is asked for again, would never happen."""
    failures, state, raised = Failures(lambda: None), PartitionState(A), list[str]()
    errors = [CorruptMessageError("first"), OffsetOutOfRangeError("second"), OffsetOutOfRangeError("third")]
    for error in errors:
        failures.of_position(state, error, partial(raised.append, str(error)))
    assert [failures.take(), failures.take(), failures.take()] == [*errors[:2], None]
    assert raised == ["first", "second"]
