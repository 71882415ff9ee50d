"""`commit()` after partitions were lost: what was returned is committed, or the call raises; never neither of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import pytest
import trio
from support.clients import eventually
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, blocking
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import IllegalGenerationError, UnknownMemberIdError
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.leave_group import LeaveGroupRequest
from minikafka.protocol.names import TopicPartition

A, KEPT = TopicPartition("a", 0), TopicPartition("a", 1)
OVERDUE_MS = 1_000

PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {},
    "cooperative": {"partition_assignment_strategy": ("cooperative-sticky",)},
    "consumer": {"group_protocol": "consumer"},
}


def nothing(cluster: ScriptedCluster) -> None:
    """No records are requested for `max_poll_interval_ms`."""


def nothing_answered(cluster: ScriptedCluster) -> None:
    """As `nothing`, and the request to leave has no answer."""
    cluster.brokers[0].handlers[LeaveGroupRequest] = lambda request, version: None


def moved(cluster: ScriptedCluster) -> None:
    cluster.rebalance()


def given_again(cluster: ScriptedCluster) -> None:
    heartbeats(cluster, ErrorCode.UNKNOWN_MEMBER_ID, times=1)


def removed(cluster: ScriptedCluster) -> None:
    cluster.assigned = []
    heartbeats(cluster, ErrorCode.UNKNOWN_MEMBER_ID, times=1)


def fenced(cluster: ScriptedCluster) -> None:
    cluster.fail(HeartbeatRequest, ErrorCode.ILLEGAL_GENERATION, times=1)
    cluster.fail(ConsumerGroupHeartbeatRequest, ErrorCode.FENCED_MEMBER_EPOCH, times=1)


def ended(cluster: ScriptedCluster) -> None:
    heartbeats(cluster, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    cluster.generation += 1


def heartbeats(cluster: ScriptedCluster, code: ErrorCode, times: int = 1 << 30) -> None:
    for kind in (HeartbeatRequest, ConsumerGroupHeartbeatRequest):
        cluster.fail(kind, code, times=times)


LOSSES = (nothing, nothing_answered, moved, given_again, removed, fenced, ended)


async def polled(consumer: Consumer) -> None:
    assert len(await consumer.poll(5_000)) == 3


async def polled_in_vain_since(consumer: Consumer) -> None:
    await polled(consumer)
    assert await consumer.poll(10) == []


async def one_record(consumer: Consumer) -> None:
    async for _ in consumer:
        return


async def all_records(consumer: Consumer) -> None:
    """The request for the fourth one is cancelled."""
    with trio.move_on_after(0.5):
        async for _ in consumer:
            pass


async def one_batch(consumer: Consumer) -> None:
    async for _ in consumer.batches():
        return


async def one_arrow_batch(consumer: Consumer) -> None:
    async for _ in consumer.arrow_batches():
        return


async def sought(consumer: Consumer) -> None:
    await polled(consumer)
    await consumer.commit()
    consumer.seek(A, 1)


READ = (polled, polled_in_vain_since, one_record, all_records, one_batch, one_arrow_batch, sought)


async def plain(consumer: Consumer) -> None:
    await consumer.commit()


async def settled(consumer: Consumer) -> None:
    await consumer.commit(consumer.settled)


def member(cluster: ScriptedCluster, **options: Any) -> Consumer:
    cluster.assigned = [A]
    cluster.generation = 1 if options.get("group_protocol") == "consumer" else 0
    given = {"enable_auto_commit": False, "max_poll_interval_ms": OVERDUE_MS, **options}
    return cluster.consumer("a", group_id="g", **given)


@pytest.mark.parametrize(("protocol", "loss", "read"), [*product(PROTOCOLS, LOSSES, READ)])
def test_what_was_returned_is_committed_or_the_commit_fails(
    protocol: str, loss: Callable[..., None], read: Callable[..., Awaitable[None]]
) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        cluster.append(A, 3)
        async with member(cluster, **PROTOCOLS[protocol]) as consumer:
            await read(consumer)
            returned = consumer.positions()[A]
            loss(cluster)
            await trio.sleep(5 * OVERDUE_MS / 1000)
            try:
                await consumer.commit()
            except (UnknownMemberIdError, IllegalGenerationError):
                return
            assert cluster.committed_of(A) == returned

    on_virtual_time(story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_error_says_what_is_not_committed_and_why(protocol: str) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        cluster.append(A, 3)
        async with member(cluster, **PROTOCOLS[protocol]) as consumer:
            await polled_in_vain_since(consumer)
            await trio.sleep(5 * OVERDUE_MS / 1000)
            for commit in (plain, settled):
                with pytest.raises(UnknownMemberIdError, match=r"a-0.*max_poll_interval_ms"):
                    await commit(consumer)

    on_virtual_time(story)


@pytest.mark.parametrize(("protocol", "loss"), [*product(PROTOCOLS, LOSSES)])
def test_what_is_committed_already_is_no_error(protocol: str, loss: Callable[..., None]) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        cluster.append(A, 3)
        async with member(cluster, **PROTOCOLS[protocol]) as consumer:
            await polled(consumer)
            await consumer.commit()
            loss(cluster)
            await trio.sleep(5 * OVERDUE_MS / 1000)
            await consumer.commit()
            assert cluster.committed_of(A) == 3

    on_virtual_time(story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_after_the_next_request_for_records_there_is_nothing_to_commit(protocol: str) -> None:
    """As in Kafka's client, which tells of the loss in this request."""

    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        cluster.append(A, 3)
        async with member(cluster, **PROTOCOLS[protocol]) as consumer:
            await polled(consumer)
            await trio.sleep(5 * OVERDUE_MS / 1000)
            cluster.assigned = []
            assert await consumer.poll(500) == []
            await consumer.commit()
            assert cluster.committed_of(A) == -1

    on_virtual_time(story)


async def given(consumer: Consumer) -> None:
    await consumer.commit({(tp.topic, tp.partition): one.offset for tp, one in consumer.settled.items()})  # type: ignore[misc]


@pytest.mark.parametrize("commit", [plain, settled, given])
def test_what_is_kept_is_committed_with_the_error_of_what_is_not(commit: Callable[..., Awaitable[None]]) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=2)
        for tp in (A, KEPT):
            cluster.append(tp, 3)
        async with member(cluster, **PROTOCOLS["cooperative"]) as consumer:
            cluster.assigned = [A, KEPT]
            while len(consumer.positions()) < 2 or min(consumer.positions().values()) < 3:
                await consumer.poll(100, max_records=3)
            await consumer.poll(0)
            cluster.rebalance(KEPT)
            await trio.sleep(0.5)
            assert consumer.assignment() == [KEPT]
            with pytest.raises(IllegalGenerationError):
                await commit(consumer)
            assert (cluster.committed_of(A), cluster.committed_of(KEPT)) == (-1, 3)

    on_virtual_time(story)


def refusal(consumer: blocking.Consumer) -> str:
    """Why a commit is refused; before the member knows that it has left, the broker refuses it."""
    with pytest.raises(UnknownMemberIdError) as refused:
        consumer.commit()
    return str(refused.value)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("loop", [False, True], ids=["poll", "loop"])
def test_a_blocking_consumer_that_was_too_slow_does_not_commit(
    bootstrap: str, topic: str, protocol: str, loop: bool
) -> None:
    with blocking.Producer(bootstrap) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number)
    options: dict[str, Any] = {"group_id": topic, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    if protocol == "classic":
        options |= {"heartbeat_interval_ms": 100, "session_timeout_ms": 6_000}
    with (
        blocking.Admin(bootstrap) as admin,
        blocking.Consumer(
            topic, bootstrap_servers=bootstrap, enable_auto_commit=False, max_poll_interval_ms=1_000, **options
        ) as consumer,
    ):
        if loop:
            next(iter(consumer))
        else:
            eventually(lambda: consumer.poll(500, max_records=10))
        eventually(lambda: not admin.describe_group(topic).members)
        eventually(lambda: "not a member" in refusal(consumer))  # Until it has read the answer to its LeaveGroup.
        assert consumer.committed((topic, 0)) == {}
