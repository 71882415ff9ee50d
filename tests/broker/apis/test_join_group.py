"""JoinGroup at every version: what a new member must send, and the errors."""

from __future__ import annotations

import pytest
from support.coordinator_node import MemoryNode
from support.coordinator_requests import GROUP, join, sync, with_node

from minikafka.broker.coordinator.groups.state.group_records import decode_record
from minikafka.protocol.errors import ErrorCode


@pytest.mark.parametrize("version", range(10))
def test_a_new_member_at_every_version(version: int) -> None:
    async def body(node: MemoryNode) -> None:
        reply = await join(node, version=version)
        if version >= 4:
            assert (reply.error_code, reply.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
            assert reply.protocol_name == (None if version >= 7 else "")
            reply = await join(node, reply.member_id, version)
        assert (reply.error_code, reply.generation_id, reply.protocol_name) == (0, 1, "range")
        assert reply.protocol_type == ("consumer" if version >= 7 else None)
        assert reply.leader == reply.member_id
        assert reply.member_id.startswith("conversation-")

    with_node(body)


def test_the_log_has_the_host_as_java_writes_it_and_the_session_timeout_as_rebalance_timeout_for_version_0() -> None:
    async def body(node: MemoryNode) -> None:
        reply = await join(node, version=0)
        await sync(node, reply.member_id, version=0)
        known = decode_record(*node.logs.records()[-1])
        assert known is not None
        (member,) = known[1].members
        assert (member.client_id, member.client_host) == ("conversation", "/127.0.0.1")
        assert (member.session_timeout, member.rebalance_timeout) == (10_000, 10_000)

    with_node(body)


@pytest.mark.parametrize("instance", [None, "i"])
def test_an_unknown_member_id_is_refused(instance: str | None) -> None:
    async def body(node: MemoryNode) -> None:
        reply = await join(node, "nobody", version=9, instance=instance)
        assert (reply.error_code, reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody")

    with_node(body)


def test_the_empty_group_id_is_refused_before_anything_else() -> None:
    async def body(node: MemoryNode) -> None:
        reply = await join(node, "x", version=9, group="")
        assert (reply.error_code, reply.member_id) == (ErrorCode.INVALID_GROUP_ID, "x")

    with_node(body)


@pytest.mark.parametrize(("low", "high"), [("10001", "20000"), ("1", "9999")])
def test_session_timeouts_outside_the_limits(low: str, high: str) -> None:
    async def body(node: MemoryNode) -> None:
        reply = await join(node, group=GROUP)
        assert reply.error_code == ErrorCode.INVALID_SESSION_TIMEOUT

    with_node(body, group_min_session_timeout_ms=low, group_max_session_timeout_ms=high)


def test_ids_of_static_members_begin_with_their_instance() -> None:
    async def body(node: MemoryNode) -> None:
        reply = await join(node, version=5, instance="one")
        assert reply.error_code == 0
        assert reply.member_id.startswith("one-")

    with_node(body)
