"""Short forms of group requests for tests, sent through codec and handler to a `MemoryNode`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from support.coordinator_node import MemoryNode, run_with_node

GROUP = "g"


def with_node(body: Callable[[MemoryNode], Awaitable[Any]], **settings: str) -> Any:
    """Run `body` with a node that has a topic `t` of two partitions; settings with underscores for dots."""

    async def with_topic(node: MemoryNode) -> Any:
        node.create_topic("t", 2)
        return await body(node)

    return run_with_node(with_topic, settings={name.replace("_", "."): text for name, text in settings.items()})


async def join(
    node: MemoryNode, member_id: str = "", version: int = 3, *, group: str = GROUP, instance: str | None = None
) -> Any:
    """Send JoinGroup; version 3 adds new members at once."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )
    if version > 0:
        request.rebalance_timeout_ms = 10_000
    return await node.ask("JoinGroup", version, request)


async def sync(node: MemoryNode, member_id: str, version: int = 5, *, generation: int = 1, **request: Any) -> Any:
    """Send SyncGroup with an assignment to the sender."""
    asked = SyncGroupRequest(group_id=GROUP, generation_id=generation, member_id=member_id, **request)
    asked.assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")]
    return await node.ask("SyncGroup", version, asked)


async def member_of_stable_group(node: MemoryNode, instance: str | None = None) -> str:
    """The only member of a group that is Stable in generation 1."""
    joined = await join(node, version=3 if instance is None else 5, instance=instance)
    await sync(node, joined.member_id, version=3)
    return joined.member_id


async def heartbeat(node: MemoryNode, member_id: str, generation: int = 1, version: int = 4) -> int:
    """Send Heartbeat; returns the error."""
    request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
    return (await node.ask("Heartbeat", version, request)).error_code


async def commit(
    node: MemoryNode, offsets: dict[int, int], version: int = 8, *, topic: str | bytes = "t", **request: Any
) -> Any:
    """Send OffsetCommit for a topic by name or, from version 10 on, by id."""
    parts = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="m")
        for index, offset in offsets.items()
    ]
    asked = OffsetCommitRequest(**{"group_id": GROUP, **request})
    if isinstance(topic, bytes):
        asked.topics = [OffsetCommitRequestTopic(topic_id=topic, partitions=parts)]
    else:
        asked.topics = [OffsetCommitRequestTopic(name=topic, partitions=parts)]
    return await node.ask("OffsetCommit", version, asked)
