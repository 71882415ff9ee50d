"""What members of groups give is bounded in bytes, for a classic group and for a node."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import trio
from support.coordinator_bench import GROUP, NO_DELAY, Bench
from support.coordinator_node import MemoryNode, run_with_node

from minikafka.broker.coordinator.groups import members_room
from minikafka.broker.coordinator.groups.classic.classic_sync import sync_group
from minikafka.broker.coordinator.groups.group_settings import RECORD_SIZE_BYTES, RECORDS_OF_A_GROUP
from minikafka.broker.coordinator.groups.members_room import (
    COUNT_S,
    GROUPS_IN_A_STEP,
    MEMBER_SIZE_BYTES,
    MembersRoom,
)
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.classic_member import PROTOCOL_SIZE_BYTES, Member
from minikafka.broker.coordinator.groups.state.consumer_member import heartbeat_size_bytes
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from minikafka.storage.steps import at_once

GROUP_SIZE_BYTES = RECORDS_OF_A_GROUP * RECORD_SIZE_BYTES
LARGE = (("range", bytes(GROUP_SIZE_BYTES - 1_000)),)
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
    ticket = bench.join(protocols=(("range", bytes(1_000)),), **options)
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
    expected = GROUP_SIZE_BYTES - 1_000 + PROTOCOL_SIZE_BYTES + len("range") + len("client")
    assert bench.group().size_bytes == expected


def test_a_node_with_larger_records_takes_larger_groups() -> None:
    bench = Bench(replace(NO_DELAY, record_size_max=2 * RECORD_SIZE_BYTES))
    protocols = (("range", bytes(GROUP_SIZE_BYTES + 1)),)
    assert bench.replies[bench.join(protocols=protocols)].error_code == ErrorCode.NONE


def test_many_protocols_with_short_names_are_too_much() -> None:
    """What they take is not the letters of their names: 10,000 protocols of 4 letters take 2 MB."""
    bench = Bench()
    protocols = tuple((f"{number:x}", b"") for number in range(10_000))
    codes = [bench.replies.get(bench.join(protocols=protocols)) for _ in range(10)]
    refused = [reply for reply in codes if reply is not None and reply.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert len(refused) == 2


EMOJI = "\U0001f600"
SHAPES: dict[str, dict[str, Any]] = {
    "short names of its own": {"names": "{member}.{number:x}", "count": 2_000},
    "short names that all have": {"names": "{number:x}", "count": 2_000},
    "names of four bytes a letter": {"names": EMOJI + "{member}.{number:x}" + "x" * 100, "count": 500},
    "much metadata": {"names": "{number}", "count": 3, "metadata": bytes(100_000)},
    "a usual consumer": {"names": "range{number}", "count": 2, "metadata": bytes(100)},
    "a long client id": {"names": "{number}", "count": 1, "client": "c" * 32_000},
    "a client id of four bytes a letter": {"names": "{number}", "count": 1, "client": EMOJI + "c" * 32_000},
    "a long instance id": {"names": "{number}", "count": 1, "instance": EMOJI + "{member}" + "i" * 32_000},
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_counted_is_what_members_take(shape: str) -> None:
    given, members = SHAPES[shape], 30

    def join(bench: Bench, member: int) -> None:
        names = [given["names"].format(member=member, number=number) for number in range(given["count"])]
        names[-1] = "common"
        metadata = [bytes(bytearray(given.get("metadata", b""))) for _ in names]
        bench.join(
            protocols=tuple(zip(names, metadata, strict=True)),
            client="".join(list(given.get("client", "client"))),
            instance=given["instance"].format(member=member) if "instance" in given else None,
        )

    bench = Bench()
    join(bench, 0)
    gc.collect()
    tracemalloc.start()
    for member in range(1, members + 1):
        join(bench, member)
    gc.collect()
    taken_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    group = bench.group()
    assert len(group.members) == members + 1
    counted = (group.size_bytes + MEMBER_SIZE_BYTES * len(group.members)) * members / (members + 1)
    assert taken_bytes < 1.5 * counted


def test_an_id_that_is_not_used_takes_no_more_than_is_counted() -> None:
    bench = Bench()
    bench.join(version=4, client="c")
    tracemalloc.start()
    for number in range(50):
        bench.join(version=4, client=EMOJI + f"{number}" + "c" * 30_000)
    taken_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(bench.group().pending_joins) == 51
    assert taken_bytes < 1.5 * 50 * MEMBER_SIZE_BYTES


# -- the election of a protocol ----------------------------------------------------------------------------------------


class CountingName(str):
    """A name that counts how often any is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountingName.compared += 1
        return str.__eq__(self, other)


def test_an_election_takes_a_number_of_steps_that_is_linear_in_the_protocols() -> None:
    """Each member prefers 1,000 protocols of its own to 1,000 that all have."""
    group = ClassicGroup("g")
    for member in range(5):
        own = [f"{member}.{number}" for number in range(1_000)]
        names = [CountingName(name) for name in (*own, *(str(number) for number in range(1_000)))]
        joining = Member(f"m{member}", None, "c", "/host", 1, 1, tuple((name, b"") for name in names))
        group.add(joining, "x")
    CountingName.compared = 0
    assert group.select_protocol() == "0"
    assert CountingName.compared <= 3 * 5 * 2_000


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
        given_bytes = MEMBER_SIZE_BYTES - PROTOCOL_SIZE_BYTES
        expected = ErrorCode.NONE if version == 3 else ErrorCode.MEMBER_ID_REQUIRED
        members: list[tuple[str, str]] = []
        code = expected
        while code == expected:
            group = f"g{len(members)}"
            reply = await node.ask("JoinGroup", version, request(group, 10 if version == 9 else given_bytes))
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


def test_leaders_are_refused_while_a_node_has_no_room_for_assignments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members_room, "MEMBERS_SIZE_BYTES_MAX", 1 << 20)

    async def body(node: MemoryNode) -> None:
        codes: list[int] = []
        for number in range(12):
            group = f"g{number}"
            reply = await node.ask("JoinGroup", 3, request(group, 10))
            if reply.error_code:
                codes.append(reply.error_code)
                continue
            assignments = [SyncGroupRequestAssignment(member_id=reply.member_id, assignment=bytes(100_000))]
            sync = SyncGroupRequest(
                group_id=group, generation_id=1, member_id=reply.member_id, assignments=assignments
            )
            codes.append((await node.ask("SyncGroup", 3, sync)).error_code)
        assert codes == [ErrorCode.NONE] * 10 + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2

    run_with_node(body)


@pytest.mark.parametrize("names", [["é" * 20] * 1, [f"topic-{number}" for number in range(30)]])
def test_members_of_the_consumer_protocol_share_the_room_of_a_node(
    monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    """Those that only say that they are there, or leave, need none; what those that left gave is free again."""
    monkeypatch.setattr(members_room, "MEMBERS_SIZE_BYTES_MAX", 50 * MEMBER_SIZE_BYTES)

    async def beat(node: MemoryNode, member_id: str, epoch: int, topics: list[str] | None) -> ErrorCode:
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=10_000 if topics else -1,
            topic_partitions=[] if topics else None,
            subscribed_topic_names=topics,
        )
        return ErrorCode((await node.ask("ConsumerGroupHeartbeat", 1, heartbeat)).error_code)

    async def body(node: MemoryNode) -> None:
        joined = 0
        while (code := await beat(node, f"m{joined:03}", 0, names)) is ErrorCode.NONE:
            joined += 1
        assert code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m000", member_epoch=0, subscribed_topic_names=names
        )
        taken = heartbeat_size_bytes(heartbeat, "conversation")
        assert joined == 50 * MEMBER_SIZE_BYTES // (MEMBER_SIZE_BYTES + taken)
        assert (await node.ask("JoinGroup", 3, request("classic", given_bytes))).error_code == code
        for number in range(5):
            assert await beat(node, f"m{number:03}", -1, None) is ErrorCode.NONE
        await trio.sleep(COUNT_S)
        assert [await beat(node, f"n{number:03}", 0, names) for number in range(6)] == [ErrorCode.NONE] * 5 + [code]

    given_bytes = 3 * MEMBER_SIZE_BYTES
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


def test_the_waiting_requests_of_a_member_that_is_refused_are_answered() -> None:
    bench, first = large_group("PreparingRebalance")
    pending = bench.replies[bench.join(protocols=SMALL, version=4)].member_id  # keeps the rebalance from completing
    waiting = bench.join(first, protocols=SMALL)
    refused = bench.join(first, protocols=(("range", bytes(GROUP_SIZE_BYTES)),))
    assert bench.replies[refused].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.replies[waiting].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert pending in bench.group().pending_joins


@pytest.mark.parametrize("sender", ["leader", "follower"])
def test_a_waiting_sync_group_keeps_no_assignments(sender: str) -> None:
    """They are the leader's to send, and then in the group."""
    bench = Bench()
    leader = bench.member()
    second = bench.join()
    reply = bench.replies[bench.join(leader)]
    member = {"leader": leader, "follower": bench.replies[second].member_id}[sender]
    given = SyncGroupRequestAssignment(member_id=leader, assignment=b"new")
    request = SyncGroupRequest(
        group_id=GROUP, generation_id=reply.generation_id, member_id=member, assignments=[given]
    )
    ticket = bench.do(lambda builder, ticket: sync_group(builder, request, ticket))
    assert (ticket in bench.replies) == (sender == "leader")
    assert request.assignments == []
    assert bench.group().members[leader].assignment == (b"new" if sender == "leader" else b"all")
