"""LeaveGroup: one member in old versions, several in new ones."""

from __future__ import annotations

import pytest
from support.coordinator_node import MemoryNode
from support.coordinator_requests import GROUP, heartbeat, member_of_stable_group, with_node

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity


@pytest.mark.parametrize("version", range(3))
def test_old_versions_name_one_member_and_get_its_error(version: int) -> None:
    async def body(node: MemoryNode) -> None:
        member_id = await member_of_stable_group(node)
        for name, error in (("nobody", ErrorCode.UNKNOWN_MEMBER_ID), (member_id, ErrorCode.NONE)):
            request = LeaveGroupRequest(group_id=GROUP, member_id=name)
            assert (await node.ask("LeaveGroup", version, request)).error_code == error
        assert await heartbeat(node, member_id) == ErrorCode.UNKNOWN_MEMBER_ID

    with_node(body)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_new_versions_answer_for_each_member(version: int) -> None:
    async def body(node: MemoryNode) -> None:
        member_id = await member_of_stable_group(node)
        request = LeaveGroupRequest(group_id=GROUP)
        request.members = [MemberIdentity(member_id=name) for name in ("nobody", member_id, member_id)]
        reply = await node.ask("LeaveGroup", version, request)
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert reply.error_code == 0
        assert [member.error_code for member in reply.members] == [unknown, 0, unknown]

    with_node(body)


def test_a_static_member_may_be_named_by_its_instance_alone() -> None:
    async def body(node: MemoryNode) -> None:
        await member_of_stable_group(node, instance="i")
        request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(group_instance_id="i", reason="over")])
        (left,) = (await node.ask("LeaveGroup", 5, request)).members
        assert (left.member_id, left.group_instance_id, left.error_code) == ("", "i", 0)

    with_node(body)


def test_an_empty_group_id_fails_the_request_and_an_unknown_group_each_member() -> None:
    async def body(node: MemoryNode) -> None:
        old = await node.ask("LeaveGroup", 1, LeaveGroupRequest(group_id="", member_id="m"))
        new = await node.ask("LeaveGroup", 4, LeaveGroupRequest(group_id="", members=[MemberIdentity(member_id="m")]))
        assert old.error_code == new.error_code == ErrorCode.INVALID_GROUP_ID
        assert not new.members
        request = LeaveGroupRequest(group_id="x", members=[MemberIdentity(member_id="m")])
        unknown = await node.ask("LeaveGroup", 4, request)
        assert (unknown.error_code, unknown.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)

    with_node(body)
