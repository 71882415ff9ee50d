"""Commits of a group's member while it rebalances, with a scripted coordinator."""

from __future__ import annotations

import pytest
import trio
from support.scripted_coordinator import TP, ScriptedCoordinator, member
from trio.testing import MockClock

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import IllegalGenerationError, UnknownMemberIdError


def test_a_commit_that_is_retried_after_a_rebalance_belongs_to_the_generation_before() -> None:
    """Otherwise it could undo the commit of the member that owns the partition by then."""
    coordinator = ScriptedCoordinator()

    async def main() -> None:
        async with member(coordinator, retry_backoff_ms=1000) as consumer:
            coordinator.lost = 1
            coordinator.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS
            with pytest.raises(IllegalGenerationError):
                await consumer.commit({TP: 5})

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert coordinator.commits == [(1, "m"), (1, "m")]
    assert coordinator.generation == 2


def test_a_transaction_has_the_generation_in_which_records_were_returned() -> None:
    """Otherwise it could commit what it made of records that another member reads again."""
    coordinator = ScriptedCoordinator()

    async def main() -> None:
        async with member(coordinator) as consumer:
            await consumer.poll()
            coordinator.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS
            await trio.sleep(1)
            assert coordinator.generation == 2
            assert consumer.group_metadata().generation == 1
            await consumer.poll()
            assert consumer.group_metadata().generation == 2

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_member_that_has_lost_its_membership_does_not_commit() -> None:
    """A commit without a member id would be accepted while the group has no members."""
    coordinator = ScriptedCoordinator()

    async def main() -> None:
        async with member(coordinator) as consumer:
            coordinator.joins_answered = False
            coordinator.heartbeats = ErrorCode.UNKNOWN_MEMBER_ID
            await trio.sleep(1)
            with pytest.raises(UnknownMemberIdError, match="not a member"):
                await consumer.commit({TP: 5})
            assert consumer.assignment() == []
            await consumer.commit()  # There is nothing to commit: no error, as with the JVM client.

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert coordinator.commits == []


def test_offsets_are_committed_for_the_generation_in_which_their_records_were_returned() -> None:
    """A partition that was lost and came back belonged to another member meanwhile, whose commit must not be undone."""
    coordinator = ScriptedCoordinator()

    async def main() -> None:
        async with member(coordinator) as consumer:
            coordinator.generation += 1
            coordinator.heartbeats = ErrorCode.ILLEGAL_GENERATION
            await trio.sleep(1)
            assert (coordinator.generation, consumer.assignment()) == (3, [TP])
            with pytest.raises(IllegalGenerationError):
                await consumer.commit({TP: 5})
            await consumer.poll()
            await consumer.commit({TP: 6})

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert coordinator.commits == [(1, "m"), (3, "m")]


def test_offsets_of_a_partition_that_stayed_are_committed_for_the_new_generation() -> None:
    coordinator = ScriptedCoordinator()

    async def main() -> None:
        async with member(coordinator) as consumer:
            coordinator.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS
            await trio.sleep(1)
            await consumer.commit({TP: 5})

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert coordinator.commits == [(2, "m")]


def test_a_commit_without_a_response_is_repeated_by_later_ones() -> None:
    """Its request may reach the coordinator after the second attempt, which it would undo (seed 1067)."""

    async def story() -> int:
        coordinator = ScriptedCoordinator()
        coordinator.unanswered = 1
        async with member(
            coordinator, enable_auto_commit=True, auto_commit_interval_ms=1000, request_timeout_ms=2000
        ) as consumer:
            for _ in range(20):
                await consumer.poll(1000)
            return len(coordinator.commits)

    assert 10 <= trio.run(story, clock=MockClock(autojump_threshold=0)) <= 99
