"""Timing of rebalances, and cases that recorded conversations cannot show without waiting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import structlog.testing
from support.coordinator_bench import GROUP, NO_DELAY, Bench

from minikafka.protocol.errors import ErrorCode, NotEnoughReplicasError

SLOW_START = replace(NO_DELAY, initial_rebalance_delay_ms=3_000)


def members_told(reply: Any) -> list[str]:
    return [member.member_id for member in reply.members]


# -- the first rebalance -------------------------------------------------------------------------------------


def test_the_initial_delay_runs_to_its_end_though_all_have_joined() -> None:
    bench = Bench(SLOW_START)
    ticket = bench.join()
    bench.pass_time(2_999)
    assert ticket not in bench.replies
    bench.pass_time(1)
    assert bench.replies[ticket].generation_id == 1


def test_new_members_extend_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    bench = Bench(SLOW_START)
    tickets = [bench.join(rebalance_ms=10_000)]
    for _ in range(4):
        bench.pass_time(2_400)
        tickets.append(bench.join(rebalance_ms=10_000))
        assert not set(tickets) & set(bench.replies)
    bench.pass_time(10_000 - 4 * 2_400)
    assert [bench.replies[ticket].generation_id for ticket in tickets] == [1] * 5
    assert len(members_told(bench.replies[tickets[0]])) == 5


def test_a_group_left_during_the_initial_delay_becomes_empty_at_its_end() -> None:
    bench = Bench(SLOW_START)
    bench.join()
    (member,) = bench.group().members
    bench.leave(member)
    bench.pass_time(3_000)
    assert (str(bench.group().state), bench.group().generation) == ("Empty", 1)


# -- time is up ----------------------------------------------------------------------------------------------


def test_a_member_that_does_not_join_in_time_is_removed_and_another_leads() -> None:
    bench = Bench()
    first = bench.member(session_ms=60_000, rebalance_ms=5_000)
    second = bench.join(session_ms=60_000, rebalance_ms=5_000)
    bench.pass_time(5_000)
    reply = bench.replies[second]
    assert (reply.leader, members_told(reply)) == (reply.member_id, [reply.member_id])
    assert bench.heartbeat(first, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_counts() -> None:
    bench = Bench()
    bench.member(session_ms=60_000, rebalance_ms=9_000)
    second = bench.join(session_ms=60_000, rebalance_ms=1_000)
    bench.pass_time(8_999)
    assert second not in bench.replies
    bench.pass_time(1)
    assert second in bench.replies


def test_static_members_that_do_not_join_stay_until_their_sessions_end() -> None:
    bench = Bench()
    reply = bench.replies[bench.join(instance="i", version=9, session_ms=30_000, rebalance_ms=5_000)]
    bench.sync(reply.member_id, 1, {reply.member_id: b"x"}, instance="i")
    second = bench.join(session_ms=60_000, rebalance_ms=5_000)
    bench.pass_time(5_000)
    joined = bench.replies[second]
    assert members_told(joined) == [reply.member_id, joined.member_id]
    assert joined.leader == joined.member_id, "the static one led, but was not there"


def test_inactive_static_members_alone_do_not_keep_the_coordinator_busy() -> None:
    bench = Bench()
    reply = bench.replies[bench.join(instance="i", version=9, session_ms=30_000, rebalance_ms=0)]
    bench.sync(reply.member_id, 1, {reply.member_id: b"x"}, instance="i")
    dynamic = bench.join(session_ms=60_000, rebalance_ms=0)
    (other,) = [name for name in bench.group().members if name != reply.member_id]
    bench.leave(other)
    assert bench.replies[dynamic].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    bench.pass_time(40_000)
    assert str(bench.group().state) == "Empty"


def test_a_waiting_member_does_not_time_out() -> None:
    bench = Bench()
    first = bench.member(session_ms=6_000, rebalance_ms=60_000)
    second = bench.join(session_ms=60_000, rebalance_ms=60_000)
    assert bench.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    third = bench.join(version=4, session_ms=50_000)
    waiting = bench.join(first, session_ms=6_000, rebalance_ms=60_000)
    bench.pass_time(20_000)
    assert waiting not in bench.replies, "it waits for the id that was handed out"
    assert first in bench.group().members
    bench.leave(bench.replies[third].member_id)
    assert bench.replies[waiting].generation_id == bench.replies[second].generation_id == 2


def test_the_session_restarts_with_the_assignment() -> None:
    bench = Bench()
    first = bench.member(session_ms=6_000)
    bench.pass_time(5_999)
    assert bench.heartbeat(first, 1) == 0
    bench.pass_time(6_000)
    assert bench.heartbeat(first, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert str(bench.group().state) == "Empty"


# -- protocols -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("voted_for_first", ["roundrobin", "range"])
def test_among_protocols_with_equal_votes_the_first_in_the_order_of_javas_hash_map_wins(voted_for_first: str) -> None:
    bench = Bench()
    other = "range" if voted_for_first == "roundrobin" else "roundrobin"
    both, turned = ((voted_for_first, b""), (other, b"")), ((other, b""), (voted_for_first, b""))
    first = bench.replies[bench.join(protocols=both)].member_id
    bench.join(protocols=turned)
    assert bench.replies[bench.join(first, protocols=both)].protocol_name == "range"


def test_a_duplicate_protocol_is_rejected_where_kafka_never_answers() -> None:
    bench = Bench()
    ticket = bench.join(protocols=(("a", b"1"), ("a", b"2")))
    assert bench.replies[ticket].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_protocol_is_selectable_again_after_the_member_without_it_left() -> None:
    bench = Bench()
    first = bench.replies[bench.join(protocols=(("a", b""), ("b", b"")))].member_id
    bench.sync(first, 1, {})
    second = bench.join(protocols=(("b", b""),))
    bench.join(first, protocols=(("a", b""), ("b", b"")))
    assert bench.replies[second].protocol_name == "b"
    assert bench.replies[bench.join(protocols=(("a", b""),))].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    bench.leave(bench.replies[second].member_id)
    third = bench.join(protocols=(("a", b""),))
    bench.join(first, protocols=(("a", b""), ("b", b"")))
    assert bench.replies[third].protocol_name == "a"


# -- who is answered -----------------------------------------------------------------------------------------


def test_a_repeated_join_ends_the_waiting_one() -> None:
    bench = Bench()
    first = bench.member()
    waiting = bench.join()
    (other,) = [name for name in bench.group().members if name != first]
    again = bench.join(other)
    assert bench.replies[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    bench.join(first)
    assert bench.replies[again].generation_id == 2


def test_a_member_that_leaves_while_waiting_for_its_assignment_is_answered() -> None:
    bench = Bench()
    first = bench.member()
    second = bench.join()
    bench.join(first)
    other = bench.replies[second].member_id
    waiting = bench.sync(other, 2)
    bench.leave(other)
    assert bench.replies[waiting].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_with_an_instance_id_is_unknown_where_kafka_says_server_error() -> None:
    bench = Bench()
    handed_out = bench.replies[bench.join(version=4)].member_id
    reply = bench.replies[bench.join(handed_out, instance="i", version=9)]
    assert reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("with_follower", [False, True])
def test_a_group_becomes_empty_even_if_the_append_fails(with_follower: bool) -> None:
    bench = Bench()
    member = bench.member()
    if with_follower:
        bench.join(version=4, session_ms=6_000)
    bench.refusal = NotEnoughReplicasError()
    assert bench.leave(member).members[0].error_code == 0
    bench.pass_time(6_000)
    assert (str(bench.group().state), bench.group().generation) == ("Empty", 2)
    bench.crash()
    assert bench.group().generation == 1
    bench.pass_time(10_000)
    assert str(bench.group().state) == "Empty", "the members of the older generation are silent"


def test_generations_continue_after_a_fail_over() -> None:
    bench = Bench()
    first = bench.member()
    bench.crash()
    assert bench.heartbeat(first, 1) == 0
    assert bench.replies[bench.join(first)].generation_id == 2
    assert GROUP in bench.state.classic_groups


# -- the log -------------------------------------------------------------------------------------------------


def test_the_rebalances_of_a_group_are_logged() -> None:
    bench = Bench()
    with structlog.testing.capture_logs() as lines:
        bench.member(session_ms=6_000)
        bench.pass_time(6_000)
    assert [(line["event"], line["group"], line.get("generation")) for line in lines] == [
        ("rebalance begun", GROUP, 0),
        ("group generation begun", GROUP, 1),
        ("group member timed out", GROUP, None),
        ("rebalance begun", GROUP, 1),
        ("group has no members left", GROUP, 2),
    ]
    assert {line["log_level"] for line in lines} == {"info"}
