"""OffsetCommit: unknown partitions, by name and by id, fail alone; the others are committed."""

from __future__ import annotations

from typing import Any

import pytest
from support.coordinator_node import MemoryNode
from support.coordinator_requests import GROUP, commit, with_node

from minikafka.broker.coordinator.groups.state.group_records import decode_record
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def errors(reply: Any) -> dict[int, int]:
    return {part.partition_index: part.error_code for topic in reply.topics for part in topic.partitions}


@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_at_every_version_is_written_with_the_topics_id(version: int) -> None:
    async def body(node: MemoryNode) -> None:
        topic = node.image.topics["t"]
        reply = await commit(node, {0: 7}, version, topic=topic.id if version >= 10 else "t")
        assert errors(reply) == {0: 0}
        (answered,) = reply.topics
        assert (answered.name, answered.topic_id) == (("", topic.id) if version >= 10 else ("t", bytes(16)))
        known = decode_record(*node.logs.records()[-1])
        assert known is not None
        assert (known[0].topic, known[1].offset, known[1].topic_id) == ("t", 7, topic.id)

    with_node(body)


def test_unknown_partitions_fail_alone_in_one_entry_for_each_topic() -> None:
    async def body(node: MemoryNode) -> None:
        reply = await commit(node, {0: 1, 2: 1, -1: 1})
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert errors(reply) == {0: 0, 2: unknown, -1: unknown}
        assert len(reply.topics) == 1

    with_node(body)


@pytest.mark.parametrize(
    ("topic", "version", "error"),
    [
        ("none", 8, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (b"x" * 16, 10, ErrorCode.UNKNOWN_TOPIC_ID),
        (bytes(16), 10, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_unknown_topics_are_checked_before_the_group(
    topic: str | bytes, version: int, error: ErrorCode
) -> None:
    async def body(node: MemoryNode) -> None:
        reply = await commit(node, {0: 1}, version, topic=topic, member_id="x", generation_id_or_member_epoch=5)
        assert errors(reply) == {0: error}

    with_node(body)


@pytest.mark.parametrize(("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_generation_of_an_unknown_group(version: int, error: ErrorCode) -> None:
    async def body(node: MemoryNode) -> None:
        reply = await commit(node, {0: 1, 1: 1}, version, member_id="x", generation_id_or_member_epoch=0)
        assert errors(reply) == {0: error, 1: error}

    with_node(body)


def test_an_empty_request_has_an_empty_response() -> None:
    async def body(node: MemoryNode) -> None:
        request = OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=9, member_id="x")
        assert not (await node.ask("OffsetCommit", 8, request)).topics

    with_node(body)


@pytest.mark.parametrize(
    ("metadata", "error"), [("😀", 0), ("😀x", ErrorCode.OFFSET_METADATA_TOO_LARGE), ("üü", 0), (None, 0)]
)
def test_the_size_of_metadata_is_measured_as_in_java(metadata: str | None, error: int) -> None:
    async def body(node: MemoryNode) -> None:
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=metadata)
        request = OffsetCommitRequest(group_id=GROUP)
        request.topics = [OffsetCommitRequestTopic(name="t", partitions=[part])]
        assert errors(await node.ask("OffsetCommit", 8, request)) == {0: error}

    with_node(body, offset_metadata_max_bytes="2")
