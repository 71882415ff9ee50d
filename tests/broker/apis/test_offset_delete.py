"""OffsetDelete: unknown partitions fail alone, unless the whole request fails."""

from __future__ import annotations

import pytest
from support.coordinator_node import MemoryNode
from support.coordinator_requests import GROUP, commit, member_of_stable_group, with_node

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


def request_of(topics: dict[str, list[int]], group: str = GROUP) -> OffsetDeleteRequest:
    request = OffsetDeleteRequest(group_id=group)
    request.topics = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in parts])
        for name, parts in topics.items()
    ]
    return request


def test_unknown_partitions_fail_alone() -> None:
    async def body(node: MemoryNode) -> None:
        await commit(node, {0: 7})
        reply = await node.ask("OffsetDelete", 0, request_of({"t": [0, 1, 9], "none": [0]}))
        found = {
            (topic.name, part.partition_index): part.error_code for topic in reply.topics for part in topic.partitions
        }
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert found == {("t", 0): 0, ("t", 1): 0, ("t", 9): unknown, ("none", 0): unknown}
        assert len(reply.topics) == 2

    with_node(body)


@pytest.mark.parametrize(
    ("group", "error"), [("", ErrorCode.INVALID_GROUP_ID), ("none", ErrorCode.GROUP_ID_NOT_FOUND)]
)
@pytest.mark.parametrize("topics", [{}, {"t": [0]}, {"none": [0]}])
def test_an_error_of_the_group_fails_the_whole_request(
    group: str, error: ErrorCode, topics: dict[str, list[int]]
) -> None:
    async def body(node: MemoryNode) -> None:
        reply = await node.ask("OffsetDelete", 0, request_of(topics, group))
        assert (reply.error_code, reply.topics) == (error, [])

    with_node(body)


def test_topics_with_subscribed_members_keep_their_offsets() -> None:
    async def body(node: MemoryNode) -> None:
        await member_of_stable_group(node)
        reply = await node.ask("OffsetDelete", 0, request_of({"t": [0, 5]}))
        (topic,) = reply.topics
        errors = {part.partition_index: part.error_code for part in topic.partitions}
        assert errors == {0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    with_node(body)
