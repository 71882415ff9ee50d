"""Joins that succeed and lead to nothing, whatever takes them back: they come ever more slowly, and never cease."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.fake_network import Later
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import TopicPartition
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest

TPS = [TopicPartition("t", 0), TopicPartition("t", 1)]
FOR_S = 15
REQUESTS_MAX = 60
"""Each second one join, with what belongs to it, and a few more at first."""
ANSWERED_MAX = 1_000
"""A member that asks without pauses is not answered any more, so that time passes."""
CONSUMER_CODES = [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]
CLASSIC_CODES = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS]


class Fickle(ScriptedCluster):
    """Has members join, and takes it back."""

    def __init__(self) -> None:
        super().__init__(t=2)
        self.assigned = TPS[:1]
        self.taken_back: ErrorCode | None = None
        """The answer to each heartbeat of a member that has joined."""
        self.interval_ms = 100
        self.moves_partitions = False
        self._answered = 0

    def _unless_too_many(self, answer: Any) -> Any:
        self._answered += 1
        return answer if self._answered <= ANSWERED_MAX else Later()

    def _member(self, request: ConsumerGroupHeartbeatRequest, version: int) -> Any:
        answer = super()._member(request, version)
        if request.member_epoch > 0 and self.taken_back:
            answer.error_code = self.taken_back
        if request.topic_partitions is None:
            answer.assignment = None
        answer.heartbeat_interval_ms = self.interval_ms
        return self._unless_too_many(answer)

    def _heartbeat(self, request: HeartbeatRequest, version: int) -> Any:
        answer = super()._heartbeat(request, version)
        answer.error_code = self.taken_back or answer.error_code
        return self._unless_too_many(answer)

    def _join(self, request: JoinGroupRequest, version: int) -> Any:
        if self.moves_partitions:
            self.assigned = [TPS[self.generation % 2]]
        answer = super()._join(request, version)
        if self.moves_partitions and self.generation == 1:
            self.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS
        return self._unless_too_many(answer)

    def mend(self) -> None:
        self.taken_back, self.moves_partitions = None, False


def check(cluster: Fickle, joins: tuple[int, int], **options: Any) -> None:
    """Count requests and joins for a while; then, once it is mended, records come."""

    async def story() -> None:
        async with cluster.consumer("t", group_id="g", **options) as consumer:
            with trio.move_on_after(FOR_S):
                while True:
                    await consumer.poll(500)
            kinds = (JoinGroupRequest, HeartbeatRequest, ConsumerGroupHeartbeatRequest)
            assert sum(len(cluster.of(kind)) for kind in kinds) <= REQUESTS_MAX
            beats = [one for one in cluster.of(ConsumerGroupHeartbeatRequest) if one.member_epoch == 0]
            assert joins[0] <= len(cluster.of(JoinGroupRequest) + beats) <= joins[1]
            cluster.mend()
            cluster.append(TPS[0])
            cluster.append(TPS[1])
            with trio.fail_after(5):
                assert await consumer.poll(5_000)

    on_virtual_time(story)


@pytest.mark.parametrize("code", CONSUMER_CODES, ids=lambda one: one.name)
def test_a_member_of_the_consumer_protocol_that_is_fenced_at_once(code: ErrorCode) -> None:
    cluster = Fickle()
    cluster.taken_back = code
    check(cluster, (10, 25), group_protocol="consumer")


@pytest.mark.parametrize("code", CLASSIC_CODES, ids=lambda one: one.name)
def test_a_member_of_the_classic_protocol_that_is_removed_at_once(code: ErrorCode) -> None:
    cluster = Fickle()
    cluster.taken_back = code
    check(cluster, (10, 25), heartbeat_interval_ms=1)


def test_a_member_of_the_classic_protocol_whose_partitions_move_with_each_generation() -> None:
    cluster = Fickle()
    cluster.moves_partitions = True
    check(cluster, (10, 25), partition_assignment_strategy=["cooperative-sticky"], heartbeat_interval_ms=3_000)


@pytest.mark.parametrize("interval_ms", [0, -1, -(2**31)])
def test_a_heartbeat_interval_that_cannot_be_counts_as_none(interval_ms: int) -> None:
    cluster = Fickle()
    cluster.interval_ms = interval_ms
    check(cluster, (1, 1), group_protocol="consumer")


def test_the_first_joins_of_a_usual_rebalance_wait_for_nothing() -> None:
    """A cooperative member that has to give up partitions joins at once for the next generation."""
    cluster = Fickle()

    async def story() -> None:
        strategy = {"partition_assignment_strategy": ["cooperative-sticky"]}
        async with cluster.consumer("t", group_id="g", **strategy) as consumer:
            await consumer.poll(200)
            began, generation = trio.current_time(), cluster.generation
            cluster.rebalance(TPS[1])
            while cluster.generation < generation + 2:
                await consumer.poll(1)
            assert trio.current_time() - began <= 0.11, "more than one heartbeat interval"

    on_virtual_time(story)
