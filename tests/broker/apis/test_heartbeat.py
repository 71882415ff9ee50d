"""Heartbeat at every version and in every state of the group."""

from __future__ import annotations

import pytest
import trio
from support.coordinator_node import MemoryNode
from support.coordinator_requests import heartbeat, join, member_of_stable_group, with_node

from minikafka.protocol.errors import ErrorCode


@pytest.mark.parametrize("version", range(5))
def test_a_member_of_a_stable_group_at_every_version(version: int) -> None:
    async def body(node: MemoryNode) -> None:
        assert await heartbeat(node, await member_of_stable_group(node), version=version) == 0

    with_node(body)


def test_it_keeps_the_session_alive() -> None:
    async def body(node: MemoryNode) -> None:
        member_id = await member_of_stable_group(node)
        for _ in range(5):
            await trio.sleep(9.9)
            assert await heartbeat(node, member_id) == 0
        await trio.sleep(10.1)
        assert await heartbeat(node, member_id) == ErrorCode.UNKNOWN_MEMBER_ID

    with_node(body)


def test_the_member_id_is_checked_before_the_generation() -> None:
    async def body(node: MemoryNode) -> None:
        member_id = await member_of_stable_group(node)
        assert await heartbeat(node, "nobody", generation=9) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await heartbeat(node, member_id, generation=9) == ErrorCode.ILLEGAL_GENERATION
        assert await heartbeat(node, member_id, generation=-1) == ErrorCode.ILLEGAL_GENERATION

    with_node(body)


def test_it_reports_a_rebalance() -> None:
    async def body(node: MemoryNode) -> None:
        member_id = await member_of_stable_group(node)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(join, node)
            await trio.sleep(1)
            assert await heartbeat(node, member_id) == ErrorCode.REBALANCE_IN_PROGRESS
            await join(node, member_id)
        assert await heartbeat(node, member_id) == ErrorCode.ILLEGAL_GENERATION
        assert await heartbeat(node, member_id, generation=2) == 0, "between join and sync all is well"

    with_node(body)
