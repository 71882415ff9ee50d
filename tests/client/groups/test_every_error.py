"""Each error code, as the answer to each request of a membership: it is raised, or retried with a word and pauses."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, TopicPartition
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest
from minikafka.protocol.messages.sync_group import SyncGroupRequest

TP = TopicPartition("t", 0)
CODES = [code for code in ErrorCode if code]
JOINED_AGAIN = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
}
"""They say that the member is to join, be they retriable or not."""
RETRIED = {False: JOINED_AGAIN, True: {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}}
"""By whether the protocol is the consumer protocol."""
REPORTED = {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED}
"""The member reports them and tries again, as Kafka's client does."""


async def watch(consumer: Consumer, for_s: float) -> list[KafkaError]:
    errors: list[KafkaError] = []
    end = trio.current_time() + for_s
    while trio.current_time() < end:
        try:
            await consumer.poll(500)
        except KafkaError as error:
            errors.append(error)
    return errors


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, ConsumerGroupHeartbeatRequest],
    ids=lambda one: one.__name__,
)
def test_it_is_raised_or_retried_with_a_word(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    is_new = kind is ConsumerGroupHeartbeatRequest
    retried = {ErrorCode.BROKER_NOT_AVAILABLE, *RETRIED[is_new]}

    async def story(code: ErrorCode) -> None:
        cluster = ScriptedCluster(t=1)
        cluster.assigned = [TP]
        cluster.fail(kind, code)
        async with cluster.consumer("t", group_id="g", group_protocol="consumer" if is_new else "classic") as consumer:
            errors = await watch(consumer, 8)
            waits = [one.getMessage() for one in caplog.records if "still waiting" in one.getMessage()]
            if code in JOINED_AGAIN and kind is HeartbeatRequest:
                assert not errors  # it joins each time, with success
            elif code in REPORTED:
                assert {one.code for one in errors} == {code}
                assert len(errors) > 4
            elif code in retried or error_for(code).retriable:
                assert not errors
                assert any("group 'g'" in one and str(error_for(code)) in one for one in waits), waits
            else:
                assert [one.code for one in errors] == [code]
                assert any("records: the membership of group 'g' has ended" in one for one in waits), waits
            assert len(cluster.of(kind)) <= 100, "retried without a pause"
            if not errors or code in REPORTED:
                cluster.mend()
                await watch(consumer, 2)
                cluster.append(TP)
                with trio.fail_after(5):
                    assert await consumer.poll(5_000)

    for code in CODES:
        caplog.clear()
        on_virtual_time(story, code)
