"""A member that its group has removed says so: what it has read and not committed is read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import TopicAuthorizationFailedError
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.names import TopicPartition

A = TopicPartition("a", 0)
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {},
    "cooperative": {"partition_assignment_strategy": ("cooperative-sticky",)},
    "consumer": {"group_protocol": "consumer"},
}


def unknown(cluster: ScriptedCluster) -> None:
    for kind in (HeartbeatRequest, ConsumerGroupHeartbeatRequest):
        cluster.fail(kind, ErrorCode.UNKNOWN_MEMBER_ID, times=1)


def fenced(cluster: ScriptedCluster) -> None:
    cluster.fail(HeartbeatRequest, ErrorCode.ILLEGAL_GENERATION, times=1)
    cluster.fail(ConsumerGroupHeartbeatRequest, ErrorCode.FENCED_MEMBER_EPOCH, times=1)


def rebalances(cluster: ScriptedCluster) -> None:
    cluster.rebalance()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("change", [unknown, fenced, rebalances])
def test_a_member_that_was_removed_says_so_once(
    change: Callable[[ScriptedCluster], None], protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        cluster.assigned = [A]
        async with cluster.consumer(group_id="g", **PROTOCOLS[protocol]) as consumer:
            await consumer.subscribe(["a"])
            await consumer.poll(5_000)
            assert consumer.assignment() == [A]
            assert "group has removed" not in caplog.text
            change(cluster)
            await consumer.poll(60_000)
            await consumer.poll(60_000)
            assert consumer.assignment() == ([] if change is rebalances else [A])

    on_virtual_time(story)
    said = [one.getMessage() for one in caplog.records if "group has removed this member" in one.getMessage()]
    assert len(said) == (0 if change is rebalances else 1)
    assert all("group 'g'" in one for one in said)


def test_a_member_that_may_not_read_a_topic_reports_it_and_stays_a_member() -> None:
    """Under the consumer protocol, as with Kafka's client: it goes on once the topic is allowed."""

    async def story() -> None:
        cluster = ScriptedCluster(a=1)
        cluster.assigned = [A]
        async with cluster.consumer("a", group_id="g", group_protocol="consumer") as consumer:
            await consumer.poll(5_000)
            before = cluster.of(ConsumerGroupHeartbeatRequest)[-1].member_id
            cluster.fail(ConsumerGroupHeartbeatRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=1)
            with pytest.raises(TopicAuthorizationFailedError, match="group 'g'"):
                await consumer.poll(60_000)
            assert consumer.assignment() == [A]
            expected = cluster.append(A, 3)
            assert [record.value for record in await consumer.poll(60_000)] == expected
            await consumer.poll(1_000)
            beat = cluster.of(ConsumerGroupHeartbeatRequest)[-1]
            assert (beat.member_id, beat.member_epoch) == (before, 1)

    on_virtual_time(story)
