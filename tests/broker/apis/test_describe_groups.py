"""DescribeGroups: members in each state, and unknown groups."""

from __future__ import annotations

import pytest
from support.coordinator_node import MemoryNode
from support.coordinator_requests import GROUP, join, member_of_stable_group, with_node

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_groups import DescribeGroupsRequest

EVERY_OPERATION = 3400
"""The bits of read, delete, describe, describe configs and alter configs."""
NOT_ASKED = -0x8000_0000


@pytest.mark.parametrize("version", range(7))
def test_a_stable_group_and_an_unknown_one_at_every_version(version: int) -> None:
    async def body(node: MemoryNode) -> None:
        member_id = await member_of_stable_group(node, instance="i")
        reply = await node.ask("DescribeGroups", version, DescribeGroupsRequest(groups=[GROUP, "none"]))
        known, unknown = reply.groups
        assert (known.group_state, known.protocol_type, known.protocol_data) == ("Stable", "consumer", "range")
        (member,) = known.members
        assert (member.member_id, member.group_instance_id) == (member_id, "i" if version >= 4 else None)
        assert (member.client_id, member.client_host) == ("conversation", "/127.0.0.1")
        assert (member.member_metadata, member.member_assignment) == (b"m", b"all")
        assert unknown.group_state == "Dead"
        assert unknown.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)

    with_node(body)


def test_metadata_is_empty_unless_the_group_is_stable_and_the_assignment_is_kept() -> None:
    async def body(node: MemoryNode) -> None:
        member_id = await member_of_stable_group(node)
        await join(node, member_id)
        (group,) = (await node.ask("DescribeGroups", 5, DescribeGroupsRequest(groups=[GROUP]))).groups
        assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
        (member,) = group.members
        assert (member.member_metadata, member.member_assignment) == (b"", b"all")

    with_node(body)


def test_groups_have_the_order_and_duplicates_of_the_request() -> None:
    async def body(node: MemoryNode) -> None:
        reply = await node.ask("DescribeGroups", 5, DescribeGroupsRequest(groups=["b", "a", "b", ""]))
        assert [group.group_id for group in reply.groups] == ["b", "a", "b", ""]

    with_node(body)


@pytest.mark.parametrize(("version", "of_unknown"), [(5, EVERY_OPERATION), (6, NOT_ASKED)])
def test_operations_are_included_unless_there_is_an_error(version: int, of_unknown: int) -> None:
    async def body(node: MemoryNode) -> None:
        await member_of_stable_group(node)
        for asked, expected in ((True, [EVERY_OPERATION, of_unknown]), (False, [NOT_ASKED, NOT_ASKED])):
            request = DescribeGroupsRequest(groups=[GROUP, "none"], include_authorized_operations=asked)
            reply = await node.ask("DescribeGroups", version, request)
            assert [group.authorized_operations for group in reply.groups] == expected

    with_node(body)
