"""What the members of classic groups give in JoinGroup is bounded in bytes, for a group and for a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import trio
from support.coordinator_bench import NO_DELAY, Bench
from support.coordinator_node import MemoryNode, run_with_node

from minikafka.broker.coordinator.groups import members_room
from minikafka.broker.coordinator.groups.group_settings import RECORD_SIZE_BYTES, RECORDS_OF_A_GROUP
from minikafka.broker.coordinator.groups.members_room import (
    COUNT_S,
    GROUPS_IN_A_STEP,
    MEMBER_SIZE_BYTES,
    MembersRoom,
)
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.controller.steps import at_once
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

GROUP_SIZE_BYTES = RECORDS_OF_A_GROUP * RECORD_SIZE_BYTES
LARGE = (("range", bytes(GROUP_SIZE_BYTES - 100)),)
SMALL = (("range", b"m"),)


def large_group(state: str) -> tuple[Bench, str]:
    """A group in this state, with a member that gave nearly all that may be given."""
    bench = Bench(replace(NO_DELAY, record_size_max=1000))
    first = bench.replies[bench.join(protocols=LARGE)].member_id
    if state != "CompletingRebalance":
        bench.sync(first, 1, {first: b"all"})
    if state == "PreparingRebalance":
        bench.join(protocols=SMALL)
    assert str(bench.group().state) == state
    return bench, first


@pytest.mark.parametrize("state", ["CompletingRebalance", "Stable", "PreparingRebalance"])
@pytest.mark.parametrize("options", [{}, {"instance": "i"}, {"version": 4}], ids=["dynamic", "static", "with an id"])
def test_a_member_that_gives_too_much_is_refused_and_the_group_goes_on(state: str, options: dict[str, Any]) -> None:
    bench, first = large_group(state)
    ticket = bench.join(protocols=(("range", bytes(100)),), **options)
    assert bench.replies[ticket].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first in bench.group().members
    assert bench.group().size_bytes <= GROUP_SIZE_BYTES


def test_one_request_may_give_too_much_for_an_empty_group() -> None:
    bench = Bench()
    protocols = tuple((f"p{number}", bytes(GROUP_SIZE_BYTES // 2)) for number in range(3))
    assert bench.replies[bench.join(protocols=protocols)].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.group().size_bytes == 0


def test_what_a_member_gives_again_takes_the_place_of_what_it_gave() -> None:
    bench, first = large_group("Stable")
    for _ in range(3):
        reply = bench.replies[bench.join(first, protocols=LARGE)]
        assert reply.error_code == ErrorCode.NONE
        bench.sync(first, reply.generation_id, {first: b"all"})
    assert bench.group().size_bytes == GROUP_SIZE_BYTES - 100 + len("range")


def test_a_node_with_larger_records_takes_larger_groups() -> None:
    bench = Bench(replace(NO_DELAY, record_size_max=2 * RECORD_SIZE_BYTES))
    protocols = (("range", bytes(GROUP_SIZE_BYTES + 1)),)
    assert bench.replies[bench.join(protocols=protocols)].error_code == ErrorCode.NONE


# -- the room of a node ------------------------------------------------------------------------------------------------


def request(group: str, size_bytes: int) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(size_bytes))]
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
    )


async def leave(node: MemoryNode, members: Sequence[tuple[str, str]]) -> None:
    for group, member_id in members:
        leaving = [MemberIdentity(member_id=member_id)]
        await node.ask("LeaveGroup", 4, LeaveGroupRequest(group_id=group, members=leaving))


@pytest.mark.parametrize("version", [3, 9])
def test_members_are_refused_while_a_node_has_no_room_for_them(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """With version 9 nobody uses the id that it gets: an id is kept as long as a session."""
    monkeypatch.setattr(members_room, "MEMBERS_SIZE_BYTES_MAX", 100 * MEMBER_SIZE_BYTES)

    async def body(node: MemoryNode) -> None:
        expected = ErrorCode.NONE if version == 3 else ErrorCode.MEMBER_ID_REQUIRED
        members: list[tuple[str, str]] = []
        code = expected
        while code == expected:
            group = f"g{len(members)}"
            reply = await node.ask("JoinGroup", version, request(group, 10 if version == 9 else MEMBER_SIZE_BYTES))
            code = ErrorCode(reply.error_code)
            members.append((group, reply.member_id))
        assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert len(members) == (50 if version == 3 else 100)
        if version == 3:
            await leave(node, members[:10])
        else:
            await trio.sleep(11)
        await trio.sleep(COUNT_S)
        again = await node.ask("JoinGroup", version, request("again", 10))
        assert again.error_code == expected

    run_with_node(body)


def test_room_is_counted_again_at_most_once_a_second_and_in_steps() -> None:
    counted, now_s = 0, 0.0
    groups = [ClassicGroup(f"g{number}") for number in range(5 * GROUPS_IN_A_STEP)]

    def all_groups() -> list[ClassicGroup]:
        nonlocal counted
        counted += 1
        return groups

    room = MembersRoom(all_groups, lambda: now_s, 10 * MEMBER_SIZE_BYTES)
    assert at_once(room.take(9 * MEMBER_SIZE_BYTES))
    groups[-1].size_bytes = 10 * MEMBER_SIZE_BYTES
    assert len(list(room.take(1))) == 5
    for _ in range(100):
        assert not at_once(room.take(1))
    assert counted == 1
    groups[-1].size_bytes = 0
    now_s = COUNT_S
    assert at_once(room.take(1))
    assert counted == 2
