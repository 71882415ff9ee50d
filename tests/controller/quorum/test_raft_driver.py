"""The timer of the Raft driver: what has arrived is heard before the clock is looked at."""

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from minikafka.controller.quorum.raft_driver import RaftDriver

TIMEOUT_S = 1.0
BUSY_S = 1.9


@pytest.mark.parametrize("heard", [True, False])
def test_a_node_that_was_busy_hears_what_waits_in_its_sockets_first(heard: bool) -> None:
    """A task of a connection needs two steps to receive a message and to hand it on."""
    clock = trio.testing.MockClock()
    ticks = list[float]()

    def tick(now: float) -> tuple[()]:
        ticks.append(now)
        raft.deadline = now + TIMEOUT_S
        return ()

    raft = SimpleNamespace(deadline=TIMEOUT_S, tick=tick)
    driver: Any = RaftDriver.__new__(RaftDriver)
    driver._raft = raft

    async def connection() -> None:
        await trio.sleep_until(TIMEOUT_S)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        if heard:
            raft.deadline = trio.current_time() + TIMEOUT_S

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
