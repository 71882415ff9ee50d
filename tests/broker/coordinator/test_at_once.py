"""Requests that need not wait are answered without a task switch; those that must, as if they had never hurried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
from support.coordinator_node import MemoryNode, run_with_node

from minikafka.broker.apis import consumer_group_heartbeat, heartbeat, offset_commit
from minikafka.broker.connections.request_context import ConnectionInfo, RequestContext
from minikafka.broker.coordinator.runtime import DECISIONS_AT_ONCE
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from minikafka.storage.waits import Rest, begin

GROUP = "g"


def context(node: MemoryNode, version: int) -> Any:
    return RequestContext(node, version, "client", ConnectionInfo("PLAINTEXT", "127.0.0.1"))


def begin_commit(node: MemoryNode, offset: int, topics: tuple[str, ...] = ("t",)) -> Any:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    named = [OffsetCommitRequestTopic(name=topic, partitions=[partition]) for topic in topics]
    request = OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=-1, topics=named)
    return begin(offset_commit.handle(request, context(node, 8)))


def errors(response: OffsetCommitResponse) -> list[tuple[str, list[int]]]:
    return [(topic.name, [one.error_code for one in topic.partitions]) for topic in response.topics]


def run(body: Callable[[MemoryNode], Awaitable[None]]) -> None:
    async def with_topic(node: MemoryNode) -> None:
        node.create_topic("t")
        await body(node)

    run_with_node(with_topic)


def test_a_commit_and_heartbeats_need_no_task() -> None:
    async def body(node: MemoryNode) -> None:
        assert errors(begin_commit(node, 4)) == [("t", [0])]
        beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
        answer = cast(Any, begin(heartbeat.handle(beat, context(node, 4))))
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        joining = ConsumerGroupHeartbeatRequest(
            group_id="c",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=9,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        joined = await consumer_group_heartbeat.handle(joining, context(node, 1))
        assert joined.assignment.topic_partitions[0].partitions == [0]
        member = ConsumerGroupHeartbeatRequest(group_id="c", member_id="m", member_epoch=joined.member_epoch)
        assert cast(Any, begin(consumer_group_heartbeat.handle(member, context(node, 1)))).error_code == ErrorCode.NONE

    run(body)


def test_a_commit_whose_replication_is_waited_for_needs_a_task() -> None:
    async def body(node: MemoryNode) -> None:
        node.logs.held = trio.Event()
        waiting = begin_commit(node, 4)
        assert isinstance(waiting, Rest)
        assert len(node.logs.records()) == 1, "the decision is made"
        node.logs.held.set()
        assert errors(await waiting) == [("t", [0])]

    run(body)


def test_leadership_that_ends_before_the_request_waits_is_told() -> None:
    """The shard of another epoch would wait for an offset that may be of other records."""

    async def body(node: MemoryNode) -> None:
        node.logs.held = trio.Event()
        waiting = begin_commit(node, 4)
        partition = node.groups.partition_of(GROUP)
        node.groups.resigned(partition)
        node.groups.elected(partition, 7)
        assert errors(await waiting) == [("t", [ErrorCode.NOT_COORDINATOR])]

    run(body)


def test_so_many_decisions_are_made_between_two_pauses() -> None:
    """A client that sends many requests at once does not keep others waiting."""

    async def body(node: MemoryNode) -> None:
        for _ in range(3):
            begun = [begin_commit(node, 4) for _ in range(DECISIONS_AT_ONCE)]
            later = [one for one in begun if isinstance(one, Rest)]
            assert len(later) == 1
            before = len(node.logs.records())
            assert errors(await later[0]) == [("t", [0])]
            assert len(node.logs.records()) == before + 1

    run(body)


@pytest.mark.parametrize("held", [False, True])
def test_partitions_that_are_not_there_are_answered_with_those_that_are(held: bool) -> None:
    async def body(node: MemoryNode) -> None:
        node.logs.held = event = trio.Event() if held else None
        answer = begin_commit(node, 4, ("absent", "t", "t"))
        if event is not None:
            event.set()
            answer = await answer
        assert errors(answer) == [("absent", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]), ("t", [0]), ("t", [0])]
        assert errors(begin_commit(node, 4, ("absent",))) == [("absent", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])]
        node.logs.held = None
        assert errors(begin_commit(node, 4, ("t", "t"))) == [("t", [0]), ("t", [0])]

    run(body)
