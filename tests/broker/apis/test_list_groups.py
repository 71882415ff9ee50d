"""ListGroups: of all partitions that the node coordinates, by state and type."""

from __future__ import annotations

import pytest
from support.coordinator_node import MemoryNode
from support.coordinator_requests import commit, join, with_node

from minikafka.protocol.messages.list_groups import ListGroupsRequest


async def listed(node: MemoryNode, version: int, **filters: list[str]) -> list[tuple[str, str, str]]:
    reply = await node.ask("ListGroups", version, ListGroupsRequest(**filters))
    return sorted((group.group_id, group.group_state, group.group_type) for group in reply.groups)


async def three_groups(node: MemoryNode) -> None:
    await join(node, group="joined")
    await commit(node, {0: 1}, group_id="simple")
    await join(node, version=4, group="pending")


@pytest.mark.parametrize("version", range(6))
def test_fields_of_every_version(version: int) -> None:
    async def body(node: MemoryNode) -> None:
        await three_groups(node)
        states = {"joined": "CompletingRebalance", "pending": "Empty", "simple": "Empty"}
        kind = "classic" if version >= 5 else ""
        expected = [(name, state if version >= 4 else "", kind) for name, state in states.items()]
        assert await listed(node, version) == expected

    with_node(body)


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"states_filter": [" EMPTY "]}, ["pending", "simple"]),
        ({"states_filter": ["Stable", "completingrebalance"]}, ["joined"]),
        ({"states_filter": [""]}, []),
        ({"types_filter": ["Classic"]}, ["joined", "pending", "simple"]),
        ({"types_filter": [" classic"]}, []),
        ({"types_filter": ["consumer", "share"]}, []),
        ({"states_filter": ["Empty"], "types_filter": ["consumer"]}, []),
    ],
)
def test_filters(filters: dict[str, list[str]], names: list[str]) -> None:
    async def body(node: MemoryNode) -> None:
        await three_groups(node)
        assert [name for name, _, _ in await listed(node, 5, **filters)] == names

    with_node(body)


def test_a_node_that_coordinates_nothing_lists_nothing() -> None:
    async def body(node: MemoryNode) -> None:
        for partition in range(3):
            node.groups.resigned(partition)
        reply = await node.ask("ListGroups", 5, ListGroupsRequest())
        assert (reply.error_code, reply.groups) == (0, [])

    with_node(body)
