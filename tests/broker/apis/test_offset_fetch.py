"""OffsetFetch in its three shapes: one group, several groups, topics by id."""

from __future__ import annotations

from typing import Any

import pytest
from support.coordinator_node import MemoryNode
from support.coordinator_requests import GROUP, commit, with_node

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)


def offsets(answered: Any) -> list[tuple[str, int, int]]:
    """(topic, partition, offset) in order."""
    return [
        (topic.name, part.partition_index, part.committed_offset)
        for topic in answered.topics
        for part in topic.partitions
    ]


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_before_version_8(version: int) -> None:
    async def body(node: MemoryNode) -> None:
        await commit(node, {0: 7, 1: 8})
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[1, 0, 5])]
        reply = await node.ask("OffsetFetch", version, OffsetFetchRequest(group_id=GROUP, topics=topics))
        assert offsets(reply) == [("t", 1, 8), ("t", 0, 7), ("t", 5, -1)]
        if version >= 2:
            reply = await node.ask("OffsetFetch", version, OffsetFetchRequest(group_id=GROUP, topics=None))
            assert offsets(reply) == [("t", 0, 7), ("t", 1, 8)]

    with_node(body)


@pytest.mark.parametrize("version", [8, 9])
def test_many_groups_at_once(version: int) -> None:
    async def body(node: MemoryNode) -> None:
        await commit(node, {0: 7})
        request = OffsetFetchRequest()
        asked = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        request.groups = [OffsetFetchRequestGroup(group_id=name, topics=asked) for name in (GROUP, "none", GROUP)]
        request.groups.append(OffsetFetchRequestGroup(group_id=GROUP, topics=None))
        reply = await node.ask("OffsetFetch", version, request)
        assert [group.group_id for group in reply.groups] == [GROUP, "none", GROUP, GROUP]
        assert [offsets(group)[0][2] for group in reply.groups] == [7, -1, 7, 7]

    with_node(body)


def test_topics_by_known_and_unknown_id() -> None:
    async def body(node: MemoryNode) -> None:
        await commit(node, {0: 7})
        known, unknown = node.image.topics["t"].id, b"x" * 16
        topics = [OffsetFetchRequestTopics(topic_id=one, partition_indexes=[0]) for one in (unknown, known)]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)])
        (group,) = (await node.ask("OffsetFetch", 10, request)).groups
        found = {topic.topic_id: topic.partitions[0] for topic in group.topics}
        assert (found[known].error_code, found[known].committed_offset) == (0, 7)
        assert (found[unknown].error_code, found[unknown].committed_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)

    with_node(body)


def test_all_topics_by_id_are_those_that_still_exist() -> None:
    async def body(node: MemoryNode) -> None:
        gone = node.create_topic("gone")
        await commit(node, {0: 7})
        await commit(node, {0: 8}, topic="gone")
        del node.image.topics["gone"], node.image.topics_by_id[gone]  # the offsets' end is still to come
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        (group,) = (await node.ask("OffsetFetch", 10, request)).groups
        assert [topic.topic_id for topic in group.topics] == [node.image.topics["t"].id]
        (group,) = (await node.ask("OffsetFetch", 9, request)).groups
        assert offsets(group) == [("t", 0, 7), ("gone", 0, 8)]

    with_node(body)


def test_an_error_of_the_group_is_in_the_field_that_the_version_has() -> None:
    async def body(node: MemoryNode) -> None:
        node.logs.count = None
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        old = await node.ask("OffsetFetch", 1, OffsetFetchRequest(group_id=GROUP, topics=topics))
        assert old.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        later = await node.ask("OffsetFetch", 7, OffsetFetchRequest(group_id=GROUP, topics=topics))
        assert (later.error_code, later.topics) == (ErrorCode.NOT_COORDINATOR, [])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        new = await node.ask("OffsetFetch", 8, request)
        assert new.groups[0].error_code == ErrorCode.NOT_COORDINATOR

    with_node(body)
