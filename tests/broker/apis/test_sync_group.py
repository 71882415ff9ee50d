"""SyncGroup at every version: assignments, and when the protocol is required."""

from __future__ import annotations

import pytest
import trio
from support.coordinator_node import MemoryNode
from support.coordinator_requests import join, sync, with_node

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.sync_group import SyncGroupRequest


@pytest.mark.parametrize("version", range(6))
def test_an_assignment_at_every_version(version: int) -> None:
    async def body(node: MemoryNode) -> None:
        member_id = (await join(node)).member_id
        sent = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
        reply = await sync(node, member_id, version, **sent)
        assert (reply.error_code, reply.assignment) == (0, b"all")
        assert reply.protocol_name == ("range" if version >= 5 else None)

    with_node(body)


@pytest.mark.parametrize("sent", [(None, None), ("consumer", None), (None, "range"), ("consumer", "x"), ("x", "range")])
def test_type_and_name_of_the_protocol_are_required_from_version_5(sent: tuple[str | None, str | None]) -> None:
    async def body(node: MemoryNode) -> None:
        member_id = (await join(node)).member_id
        reply = await sync(node, member_id, 5, protocol_type=sent[0], protocol_name=sent[1])
        assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    with_node(body)


def test_a_follower_waits_for_the_leader() -> None:
    async def body(node: MemoryNode) -> None:
        first = (await join(node)).member_id
        await sync(node, first, 3)
        answers: list[bytes] = []

        async def follower() -> None:
            joined = await join(node)
            request = SyncGroupRequest(group_id="g", generation_id=2, member_id=joined.member_id)
            answers.append((await node.ask("SyncGroup", 3, request)).assignment)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follower)
            await trio.sleep(1)
            await join(node, first)
            await trio.sleep(1)
            assert not answers
            await sync(node, first, 3, generation=2)
        assert answers == [b""], "the leader did not mention it"

    with_node(body)


@pytest.mark.parametrize("group", ["", "none"])
def test_unknown_groups(group: str) -> None:
    async def body(node: MemoryNode) -> None:
        reply = await node.ask("SyncGroup", 4, SyncGroupRequest(group_id=group, generation_id=1, member_id="m"))
        assert reply.error_code == (ErrorCode.UNKNOWN_MEMBER_ID if group else ErrorCode.INVALID_GROUP_ID)

    with_node(body)
