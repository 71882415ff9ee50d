"""`ScriptedCoordinator`: a coordinator with one member, on a fake network, whose answers a test chooses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from minikafka.client import Consumer, Listener
from minikafka.client.groups.assignors import encode_assignment
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from minikafka.protocol.names import TopicPartition
from support.fake_network import FakeNetwork, topic_id

TP = TopicPartition("t", 0)


class ScriptedCoordinator:
    """A coordinator with one member.

    Attributes:
        commits: The generation and the member id of each commit.
        heartbeats: The answer to heartbeats.
        lost: The number of commits whose answer is NOT_COORDINATOR.
        unanswered: The number of commits without an answer.
        joins, heartbeats_seen, left: The number of requests of each kind.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.joins_answered = self.leaves_answered = True
        self.commits: list[tuple[int, str]] = []
        self.heartbeats = ErrorCode.NONE
        self.lost = self.unanswered = 0
        self.joins = self.heartbeats_seen = self.left = 0

    def handlers(self) -> dict[Any, Any]:
        coordinator = Coordinator(key="g", node_id=1, host="a", port=1, error_code=0, error_message=None)
        found = FindCoordinatorResponse(coordinators=[coordinator])
        return {
            FindCoordinatorRequest: lambda request, version: found,
            JoinGroupRequest: self.join,
            SyncGroupRequest: lambda request, version: SyncGroupResponse(assignment=encode_assignment([TP])),
            HeartbeatRequest: self.heartbeat,
            OffsetCommitRequest: self.commit,
            LeaveGroupRequest: self.leave,
            OffsetFetchRequest: self.committed,
            FetchRequest: lambda request, version: None,
        }

    def heartbeat(self, request: HeartbeatRequest, version: int) -> HeartbeatResponse:
        self.heartbeats_seen += 1
        return HeartbeatResponse(error_code=self.heartbeats)

    def leave(self, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse | None:
        self.left += 1
        return LeaveGroupResponse() if self.leaves_answered else None

    def join(self, request: JoinGroupRequest, version: int) -> JoinGroupResponse | None:
        self.joins += 1
        if not self.joins_answered:
            return None
        self.generation += 1
        self.heartbeats = ErrorCode.NONE
        return JoinGroupResponse(
            generation_id=self.generation, protocol_name="range", leader="other", member_id="m", members=[]
        )

    def committed(self, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
        return fetched_offset(3)

    def commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse | None:
        self.commits.append((request.generation_id_or_member_epoch, request.member_id))
        if self.unanswered:
            self.unanswered -= 1
            return None
        error = ErrorCode.NONE
        if self.lost:
            self.lost -= 1
            error = ErrorCode.NOT_COORDINATOR
        elif request.generation_id_or_member_epoch != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        return committed_offset(error)


def fetched_offset(offset: int, leader_epoch: int = -1) -> OffsetFetchResponse:
    """What group "g" has committed for the partition."""
    partition = OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=offset, committed_leader_epoch=leader_epoch, metadata="", error_code=0
    )
    topic = OffsetFetchResponseTopics(name="t", topic_id=topic_id("t"), partitions=[partition])
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[topic], error_code=0)])


def committed_offset(error: ErrorCode = ErrorCode.NONE) -> OffsetCommitResponse:
    """The answer to a commit for the partition."""
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=error)
    topic = OffsetCommitResponseTopic(name="t", topic_id=topic_id("t"), partitions=[partition])
    return OffsetCommitResponse(topics=[topic])


@asynccontextmanager
async def member(
    coordinator: ScriptedCoordinator, listener: Listener | None = None, **options: Any
) -> AsyncIterator[Consumer]:
    """A member that owns its partition."""
    network = FakeNetwork({"t": [1]})
    network.broker("a", 1, coordinator.handlers())
    given = {"enable_auto_commit": False, "heartbeat_interval_ms": 100, **options}
    async with Consumer(bootstrap_servers="a:1", group_id="g", seams=network.seams(), **given) as consumer:
        await consumer.subscribe(["t"], listener=listener)
        while not consumer.assignment():
            await consumer.poll(10)
        yield consumer
