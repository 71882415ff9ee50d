"""Published bugs of Kafka's group coordinator (docs/published-bugs.md, Groups)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
import trio.testing
from support.coordinator_bench import GROUP, NO_DELAY, Bench
from support.coordinator_node import MemoryNode, run_with_node

from minikafka.broker.coordinator.groups.offsets.offset_commits import commit_offsets, fetch_offsets
from minikafka.broker.coordinator.groups.offsets.removal_in_steps import clean_up_expired
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics

DAY_MS = 86_400_000


def commit(bench: Bench, offset: int, *, generation: int = -1, member_id: str = "", version: int = 8) -> int:
    """Commit for t-0; the partition's error code."""
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[part])],
    )
    reply = bench.ask(lambda builder, ticket: commit_offsets(builder, request, version, ticket))
    return reply.topics[0].partitions[0].error_code


def fetched(bench: Bench, group: str = GROUP) -> tuple[int, int]:
    """(error code, offset) of t-0."""
    request = OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    reply = bench.ask(lambda builder, ticket: fetch_offsets(builder, request, ticket, require_stable=False))
    (part,) = reply.topics[0].partitions
    return part.error_code, part.committed_offset


def code(bench: Bench, ticket: object) -> int:
    return bench.replies[ticket].error_code


# -- KIP-394, KAFKA-7610, KAFKA-9752 -------------------------------------------------------------------------------


def test_clients_that_never_learn_their_id_add_no_members() -> None:
    bench = Bench()
    bench.member()
    for _ in range(500):
        assert code(bench, bench.join(version=4)) == ErrorCode.MEMBER_ID_REQUIRED
    assert len(bench.group().members) == 1
    bench.pass_time(9_000)
    bench.heartbeat(next(iter(bench.group().members)), 1)
    bench.pass_time(1_001)
    assert not bench.group().pending_joins
    assert str(bench.group().state) == "Stable"


def test_a_failed_new_member_delays_a_rebalance_only_for_its_session() -> None:
    bench = Bench()
    first = bench.member(session_ms=600_000, rebalance_ms=600_000)
    bench.join(rebalance_ms=600_000)  # a member whose response is never read
    ticket = bench.join(first, session_ms=600_000, rebalance_ms=600_000)
    generation = bench.replies[ticket].generation_id
    bench.sync(first, generation, {})
    bench.pass_time(10_001)  # it never synced nor sent a heartbeat: its session of 10 s has timed out
    assert bench.heartbeat(first, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.replies[bench.join(first, session_ms=600_000, rebalance_ms=600_000)]
    assert [member.member_id for member in again.members] == [first]


def test_the_join_of_a_new_member_times_out_after_five_minutes() -> None:
    bench = Bench()
    first = bench.member(session_ms=1_800_000, rebalance_ms=1_800_000)
    waiting = bench.join(session_ms=1_800_000, rebalance_ms=1_800_000)
    bench.pass_time(299_999)
    assert waiting not in bench.replies
    bench.pass_time(1)
    assert code(bench, waiting) == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(bench.group().members) == [first]


def test_a_pending_member_id_delays_a_rebalance_only_for_its_session() -> None:
    bench = Bench()
    first = bench.member(session_ms=60_000, rebalance_ms=60_000)
    bench.join(version=4, session_ms=6_000)
    ticket = bench.join(first, session_ms=60_000, rebalance_ms=60_000)
    assert ticket not in bench.replies
    bench.pass_time(6_000)
    assert bench.replies[ticket].generation_id == 2


# -- KAFKA-10284, KAFKA-9801, KAFKA-14422, KAFKA-14009 -------------------------------------------------------------


def static_group(bench: Bench) -> str:
    reply = bench.replies[bench.join(instance="i", version=9)]
    bench.sync(reply.member_id, 1, {reply.member_id: b"mine"}, instance="i")
    return reply.member_id


def test_a_static_members_new_id_is_logged_and_the_old_one_fenced_after_a_fail_over() -> None:
    bench = Bench()
    old = static_group(bench)
    new = bench.replies[bench.join(instance="i", version=9)].member_id
    assert new != old
    bench.crash()
    assert bench.heartbeat(old, 1, instance="i") == ErrorCode.FENCED_INSTANCE_ID
    assert bench.heartbeat(old, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(new, 1, instance="i") == ErrorCode.NONE
    assert bench.replies[bench.sync(new, 1, instance="i")].assignment == b"mine"


def test_a_static_member_returning_between_join_and_sync_starts_a_rebalance() -> None:
    bench = Bench()
    old = static_group(bench)
    bench.join(old, instance="i", version=9)  # the leader joins again: generation 2, not synced
    syncing = bench.replies[bench.join(instance="i", version=9)]
    assert syncing.generation_id == 3
    assert code(bench, bench.sync(old, 2, {old: b"x"}, instance="i")) == ErrorCode.FENCED_INSTANCE_ID


def test_members_of_old_and_new_versions_share_a_group() -> None:
    bench = Bench()
    first = bench.replies[bench.join(version=0)].member_id
    bench.sync(first, 1, {first: b"x"})
    second = bench.join(instance="i", version=9)
    bench.join(first, version=2)
    assert bench.replies[second].generation_id == 2
    assert bench.replies[second].leader == first


def test_a_returning_static_member_has_its_new_timeouts() -> None:
    bench = Bench()
    static_group(bench)
    new = bench.replies[bench.join(instance="i", version=9, session_ms=7_000, rebalance_ms=70_000)].member_id
    for state in (bench.state, bench.reloaded()):
        member = state.classic_groups[GROUP].members[new]
        assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (7_000, 70_000)
    bench.pass_time(7_000)
    assert not bench.group().members


# -- KAFKA-8069 ---------------------------------------------------------------------------------------------------


def test_removal_in_steps_survives_a_restart() -> None:
    bench = Bench()
    commit(bench, 5)
    bench.pass_time(6 * DAY_MS)
    bench.crash()
    bench.pass_time(DAY_MS - 1)
    assert fetched(bench) == (0, 5)
    bench.pass_time(NO_DELAY.retention_check_interval_ms + 1)
    assert fetched(bench) == (0, -1)
    assert GROUP not in bench.state.classic_groups


def test_offsets_of_subscribed_topics_do_not_expire() -> None:
    bench = Bench()
    member = bench.member(session_ms=1_800_000)  # its metadata is not a subscription: every topic counts as subscribed
    assert commit(bench, 5, generation=1, member_id=member) == 0
    for _ in range(2 * 8 * 24):
        bench.pass_time(1_800_000 - 1)
        assert bench.heartbeat(member, 1) == 0
    assert fetched(bench) == (0, 5)


# -- KAFKA-7447 ---------------------------------------------------------------------------------------------------


def test_a_returning_coordinator_has_the_offsets_committed_elsewhere() -> None:
    async def body(here: MemoryNode) -> int:
        there = MemoryNode(here.logs)
        for node in (here, there):
            node.create_topic("t")
        assert await commit_at(here, 1) == 0
        async with trio.open_nursery() as nursery:
            for partition in range(3):
                here.groups.resigned(partition, 1)
            await there.start(nursery)
            assert await commit_at(here, 7) == ErrorCode.NOT_COORDINATOR
            assert await commit_at(there, 2) == 0
            nursery.cancel_scope.cancel()
        for partition in range(3):
            here.groups.elected(partition, 2)
            here.groups.resigned(partition, 1)  # an outdated notification
        await trio.testing.wait_all_tasks_blocked()
        return await offset_at(here)

    assert run_with_node(body) == 2


async def commit_at(node: MemoryNode, offset: int) -> int:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
    request = OffsetCommitRequest(
        group_id=GROUP, topics=[OffsetCommitRequestTopic(name="t", partitions=[part])]
    )
    reply = await node.ask("OffsetCommit", 8, request)
    return reply.topics[0].partitions[0].error_code


async def offset_at(node: MemoryNode) -> int:
    request = OffsetFetchRequestGroup(
        group_id=GROUP, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    reply = await node.groups.fetch(request, require_stable=True)
    return reply.topics[0].partitions[0].committed_offset


# -- a coordinator that may have been replaced ------------------------------------------------------------------------


def test_without_a_lease_stable_offsets_are_not_answered() -> None:
    """Those who read them repeat transactions from there: offsets that are out of date would be processed twice."""

    async def body(node: MemoryNode) -> tuple[int, ...]:
        node.has_lease = False
        request = OffsetFetchRequestGroup(
            group_id=GROUP, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        )
        replies = [await node.groups.fetch(request, require_stable=stable) for stable in (True, False)]
        return tuple(reply.error_code for reply in replies)

    assert run_with_node(body) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NONE)


# -- OffsetFetch for an unknown group, commits during a rebalance --------------------------------------------------


def test_offsets_of_an_unknown_group_are_minus_one_without_error() -> None:
    assert fetched(Bench(), "unknown") == (0, -1)


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])
@pytest.mark.parametrize("who", ["member", "member of the last generation", "stranger", "nobody"])
def test_commits_in_each_state_by_each_kind_of_client(state: str, who: str) -> None:
    bench = Bench()
    member = bench.member()
    generation = 1
    if state == "PreparingRebalance":
        bench.join()
    elif state == "CompletingRebalance":
        bench.join(member)
        generation = 2
    elif state == "Empty":
        bench.leave(member)
        generation = 2
    assert str(bench.group().state) == state
    said = {
        "member": (generation, member),
        "member of the last generation": (generation - 1, member),
        "stranger": (generation, "x"),
        "nobody": (-1, ""),
    }[who]
    error = commit(bench, 1, generation=said[0], member_id=said[1])
    assert error == expected_error(state, who)


def expected_error(state: str, who: str) -> ErrorCode:
    """Kafka's `validateOffsetCommit`, as a table: in an Empty group only generation -1 is valid."""
    if who == "nobody":
        return ErrorCode.NONE if state == "Empty" else ErrorCode.UNKNOWN_MEMBER_ID
    if state == "Empty" or who == "stranger":
        return ErrorCode.UNKNOWN_MEMBER_ID
    if who != "member":
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.REBALANCE_IN_PROGRESS if state == "CompletingRebalance" else ErrorCode.NONE


def test_a_group_above_its_maximum_size_after_a_restart_shrinks_to_it() -> None:
    bench = Bench()
    first = bench.member()
    second = bench.join()
    bench.join(first)
    bench.sync(first, 2, {})
    bench.settings = replace(NO_DELAY, group_size_max=1)
    other = bench.replies[second].member_id
    bench.sync(other, 2)
    bench.crash()
    assert str(bench.group().state) == "PreparingRebalance"
    assert bench.heartbeat(other, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    waiting = bench.join(other)
    assert code(bench, bench.join(first)) == ErrorCode.GROUP_MAX_SIZE_REACHED
    bench.pass_time(10_000)
    assert [member.member_id for member in bench.replies[waiting].members] == [other]


def test_cleaning_up_three_thousand_groups_takes_several_batches() -> None:
    bench = Bench()
    for number in range(3_000):
        bench.replies[bench.join(group=f"g{number}", version=4)]
    assert len(bench.state.classic_groups) == 3_000
    bench.carry_out_all(clean_up_expired(bench.state, bench.now))
    assert not bench.state.classic_groups
