"""The Raft driver: what has arrived is heard before the clock is looked at; what may pass a sync, and what may not."""

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing

from minikafka.controller.line_rate import LineRate
from minikafka.controller.quorum.raft_driver import RaftDriver
from minikafka.controller.quorum.raft_events import RaftEvents
from minikafka.controller.raft.effects import Effect, Follow, Persist, SendResponse, Sync
from minikafka.controller.raft.election_state import ElectionState
from minikafka.controller.raft.messages import BeginEpochResponse, VoteResponse

TIMEOUT_S = 1.0
BUSY_S = 1.9


@pytest.mark.parametrize("heard", [True, False])
def test_a_node_that_was_busy_hears_what_waits_in_its_sockets_first(heard: bool) -> None:
    """A task of a connection needs two steps to receive a message and to hand it on."""
    clock = trio.testing.MockClock()
    ticks = list[float]()

    def tick(now: float) -> tuple[()]:
        ticks.append(now)
        raft.deadline = raft.gives_up_at = now + TIMEOUT_S
        return ()

    raft = SimpleNamespace(deadline=TIMEOUT_S, gives_up_at=TIMEOUT_S, tick=tick, membership=None)
    driver: Any = RaftDriver.__new__(RaftDriver)
    driver._raft = raft
    driver._membership = None

    async def connection() -> None:
        await trio.sleep_until(TIMEOUT_S)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        if heard:
            raft.deadline = raft.gives_up_at = trio.current_time() + TIMEOUT_S

    async def story() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(driver._run_timer)
            nursery.start_soon(connection)
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(BUSY_S)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(story, clock=clock)
    assert ticks == ([] if heard else [BUSY_S])


def test_what_is_due_while_the_others_are_heard_is_done_at_once() -> None:
    """A Fetch that has waited long enough gets its response without rounds of the loop in between."""
    rounds = list[int]()
    steps = 0

    def tick(now: float) -> tuple[()]:
        rounds.append(steps)
        raft.deadline = now + TIMEOUT_S
        return ()

    raft = SimpleNamespace(deadline=TIMEOUT_S, gives_up_at=100 * TIMEOUT_S, tick=tick, membership=None)
    driver: Any = RaftDriver.__new__(RaftDriver)
    driver._raft = raft
    driver._membership = None

    async def count_steps() -> None:
        nonlocal steps
        await trio.sleep_until(TIMEOUT_S)
        for steps in range(1, 10):  # noqa: B007 (read by `tick`)
            await trio.lowlevel.checkpoint()

    async def story() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(driver._run_timer)
            nursery.start_soon(count_steps)
            await trio.sleep(1.5 * TIMEOUT_S)
            nursery.cancel_scope.cancel()

    trio.run(story, clock=trio.testing.MockClock(autojump_threshold=0))
    assert len(rounds) == 1
    assert rounds[0] <= 1


@pytest.mark.parametrize(
    ("waiting", "response", "passes"),
    [
        (Sync(3, 1), BeginEpochResponse(1, 2), True),
        (Sync(3, 1), VoteResponse(1, 2, granted=False), False),
        (Persist(ElectionState(1)), BeginEpochResponse(1, 2), False),
    ],
)
def test_a_response_that_says_nothing_about_the_log_does_not_wait_for_a_sync(
    waiting: Effect, response: Any, passes: bool
) -> None:
    """Also while the disk is at work on the effect before it, which is no longer in the queue."""
    sent = list[Any]()
    at_work, may_end = trio.Event(), trio.Event()

    async def disk(*_: object) -> None:
        at_work.set()
        await may_end.wait()

    driver: Any = RaftDriver.__new__(RaftDriver)
    driver.voters, driver._persisting, driver._sleeps_until = (1, 2, 3), False, 0.0
    driver._effects, driver._effects_queued = deque(), trio.Event()
    driver._raft = SimpleNamespace(deadline=TIMEOUT_S, synced=lambda *_: [], membership=None)
    driver._membership = None
    driver._stored = SimpleNamespace(sync=disk, persist=disk)

    async def story() -> None:
        driver._queue([waiting])
        driver._queue([SendResponse(sent.append, response)])
        in_queue = len(sent)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(driver._carry_out, nursery)
            await at_work.wait()
            driver._queue([SendResponse(sent.append, response)])
            assert (in_queue, len(sent)) == ((1, 2) if passes else (0, 0))
            may_end.set()
            await trio.testing.wait_all_tasks_blocked()
            assert sent == [response.to_map()] * 2
            nursery.cancel_scope.cancel()

    trio.run(story)


def test_a_leader_that_is_lost_and_found_again_is_logged_once() -> None:
    driver: Any = RaftDriver.__new__(RaftDriver)
    driver._events, driver._listener = RaftEvents(LineRate(lambda: 0)), SimpleNamespace(following=lambda *_: None)
    with structlog.testing.capture_logs() as lines:
        for leader_id, epoch in ((3, 5), (3, 5), (1, 6), (3, 7)):
            driver._carry_out_at_once(Follow(leader_id, epoch))
    told = [(line["leader"], line["epoch"]) for line in lines if line["log_level"] == "info"]
    assert told == [(3, 5), (1, 6), (3, 7)]
