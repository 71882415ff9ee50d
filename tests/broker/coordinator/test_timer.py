"""A deadline whose decision meets a bug comes again, ever later, and is logged with its trace once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import structlog
import trio
import trio.testing

from minikafka.broker.coordinator.deadlines import Deadlines
from minikafka.broker.coordinator.decision import Decision, Now
from minikafka.broker.coordinator.timer import RETRIES_MAX, Timer
from minikafka.controller.failures import FAILURES


class Broken:
    """A state whose deadlines meet a bug as often as wanted, as decisions of one step or of several."""

    def __init__(self, failures: int, *, in_steps: bool) -> None:
        self.deadlines: Deadlines[str] = Deadlines()
        self.tried: list[int] = []
        self.failures = failures
        self.in_steps = in_steps

    def expire(self, name: str, now: Now) -> Any:
        return self._steps(now) if self.in_steps else self._decide(now)

    def _steps(self, now: Now) -> Iterator[Decision]:
        yield Decision()
        yield self._decide(now)

    def _decide(self, now: Now) -> Decision:
        self.tried.append(now.steady_ms // 1000)
        if len(self.tried) <= self.failures:
            raise ZeroDivisionError
        return Decision()


def run_timer(state: Any, body: Callable[[Timer], Awaitable[None]]) -> None:
    async def main() -> None:
        def now() -> Now:
            return Now(0, int(trio.current_time() * 1000 + 1e-3))

        timer = Timer(state, lambda *_: True, now, "t-0")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(timer.run)
            await body(timer)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("in_steps", [False, True])
def test_a_deadline_that_meets_a_bug_comes_again_ever_later(in_steps: bool) -> None:
    state = Broken(9, in_steps=in_steps)
    failed = FAILURES["deadline"]

    async def body(timer: Timer) -> None:
        for _ in range(2):
            state.deadlines.set("d", int(trio.current_time() * 1000))
            timer.wake()
            await trio.sleep(1_000)
            state.failures = len(state.tried) + 1

    with structlog.testing.capture_logs() as logs:
        run_timer(state, body)
    waits = [later - before for before, later in zip(state.tried, state.tried[1:], strict=False)]
    assert waits[:9] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert waits[10:] == [1], "after a success it begins anew"
    assert FAILURES["deadline"] == failed + 10
    told = [one for one in logs if one["event"] == "deadline failed"]
    assert [bool(one["exc_info"]) for one in told] == [True] + 8 * [False] + [True], "its trace is logged once"


def test_the_deadlines_whose_retries_are_counted_have_a_bound() -> None:
    state = Broken(10**9, in_steps=False)

    async def body(timer: Timer) -> None:
        for number in range(RETRIES_MAX + 50):
            state.deadlines.set(str(number), 0)
        timer.wake()
        await trio.sleep(0.5)
        assert len(state.tried) == RETRIES_MAX + 50
        assert len(timer._retries) == RETRIES_MAX

    with structlog.testing.capture_logs():
        run_timer(state, body)
