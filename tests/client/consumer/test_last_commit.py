"""The last commit of a consumer, when it is closed or loses partitions, is logged with the cause if it fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import trio
from support.group_members import RecordingListener
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.leave_group import LeaveGroupRequest
from minikafka.protocol.messages.offset_commit import OffsetCommitRequest
from minikafka.protocol.names import TopicPartition

A, OTHER = TopicPartition("a", 0), TopicPartition("a", 1)
LOGGED = "last auto-commit of partitions failed: group 'g': "


def refuses(cluster: ScriptedCluster) -> None:
    cluster.fail(OffsetCommitRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def is_loading(cluster: ScriptedCluster) -> None:
    cluster.fail(OffsetCommitRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def is_silent(cluster: ScriptedCluster) -> None:
    handlers = cluster.brokers[0].handlers
    handlers.update(dict.fromkeys(handlers, lambda request, version: None))


def is_gone(cluster: ScriptedCluster) -> None:
    cluster.brokers[0].die()


CAUSES: dict[str, tuple[Callable[[ScriptedCluster], None], str]] = {
    "refused": (refuses, "group authorization failed"),
    "loading": (is_loading, "coordinator load in progress"),
    "silent": (is_silent, "committing offsets did not succeed within"),
    "gone": (is_gone, "nobody listens at a:1"),
}


class Failed(Exception):
    """Leaves the consumer's block."""


async def leaves(cluster: ScriptedCluster, consumer: Consumer) -> None:
    """The block ends."""


async def raises(cluster: ScriptedCluster, consumer: Consumer) -> None:
    await consumer.poll(0)
    raise Failed


async def unsubscribes(cluster: ScriptedCluster, consumer: Consumer) -> None:
    await consumer.unsubscribe()


async def loses_a_partition(cluster: ScriptedCluster, consumer: Consumer) -> None:
    await consumer.poll(0)
    cluster.rebalance(OTHER)
    await trio.sleep(7)


CASES = [
    *product((leaves, raises, unsubscribes), CAUSES),
    *product((loses_a_partition,), ("refused", "loading")),  # Others tell the member of no rebalance.
]


@pytest.mark.parametrize(("ending", "cause"), CASES)
def test_it_is_logged_with_the_cause(ending: Any, cause: str, caplog: pytest.LogCaptureFixture) -> None:
    begins, text = CAUSES[cause]

    async def story() -> None:
        cluster = ScriptedCluster(a=2)
        cluster.append(A, 3)
        cluster.assigned = [A, OTHER]
        options = {"group_id": "g", "auto_commit_interval_ms": 3_600_000, "default_api_timeout_ms": 6_000}
        with contextlib.suppress(Failed):
            async with cluster.consumer("a", **options) as consumer:
                assert len(await consumer.poll(1_000)) == 3
                begins(cluster)
                began = trio.current_time()
                await ending(cluster, consumer)
        assert trio.current_time() - began <= (5 if ending in (leaves, raises) else 15)
        assert cluster.of(LeaveGroupRequest) or cause == "gone"

    on_virtual_time(story)
    said = [one.getMessage() for one in caplog.records if one.getMessage().startswith(LOGGED)]
    assert len(said) == (3 if ending is loses_a_partition else 1), "in the end both partitions are tried apart"
    assert all(text in one for one in said)


@pytest.mark.parametrize("cause", ["loading", "silent"])
def test_those_of_lost_and_of_kept_partitions_leave_time_to_leave_the_group(
    cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=2)
        cluster.append(A, 3)
        cluster.append(OTHER, 3)
        cluster.assigned = [A, OTHER]
        options = {"group_id": "g", "auto_commit_interval_ms": 3_600_000, "default_api_timeout_ms": 6_000}
        cooperative = {"partition_assignment_strategy": ("cooperative-sticky",)}
        async with cluster.consumer("a", **options, **cooperative) as consumer:
            while sum(consumer.positions().values()) < 6:
                await consumer.poll(100, max_records=3)
            is_loading(cluster)
            cluster.rebalance(OTHER)
            await trio.sleep(10)
            assert consumer.assignment() == [OTHER]
            assert consumer._fetcher.left
            CAUSES[cause][0](cluster)
            caplog.clear()
            began = trio.current_time()
        assert trio.current_time() - began <= 5
        assert cluster.of(LeaveGroupRequest)

    on_virtual_time(story)
    said = [one.getMessage() for one in caplog.records if one.getMessage().startswith(LOGGED)]
    assert len(said) == 2


def test_it_is_logged_that_a_member_that_was_removed_cannot_commit(caplog: pytest.LogCaptureFixture) -> None:
    """Its listener was not told yet, so that it has its partitions still."""

    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        cluster.append(A, 3)
        cluster.assigned = [A]
        async with cluster.consumer(group_id="g", auto_commit_interval_ms=3_600_000) as consumer:
            await consumer.subscribe(["a"], listener=RecordingListener())
            assert len(await consumer.poll(1_000)) == 3
            cluster.heartbeats = ErrorCode.UNKNOWN_MEMBER_ID
            await trio.sleep(1)
            assert consumer.assignment() == [A]

    on_virtual_time(story)
    assert f"{LOGGED}this consumer is not a member of group 'g' at present" in caplog.text


def test_one_that_succeeds_and_one_of_nothing_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        cluster.append(A, 3)
        cluster.assigned = [A]
        for count in (3, 0):
            async with cluster.consumer("a", group_id="g") as consumer:
                assert len(await consumer.poll(1_000)) == count
        async with cluster.consumer(group_id="g") as consumer:
            cluster.brokers[0].die()
        assert cluster.committed_of(A) == 3

    on_virtual_time(story)
    assert LOGGED not in caplog.text
