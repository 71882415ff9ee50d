"""Trio in a simulation behaves as trio's own: sleeps, scopes and cancellations, nested in every way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from simulation.world.cheap_trio import use_cheap_trio
from simulation.world.trio_loop import cheap_deadlines


def run(function: Callable[[], Awaitable[object]]) -> object:
    """The result of a function under trio, with the functions of the simulation; time passes at once."""
    cheap_deadlines()
    use_cheap_trio()
    return trio.run(function, clock=MockClock(autojump_threshold=0))


def test_a_sleep_ends_at_its_time_and_with_the_scope_around_it() -> None:
    async def sleeps() -> list[float]:
        times = []
        for seconds in (2.0, 0.0, 1.5):
            await trio.sleep(seconds)
            times.append(trio.current_time())
        await trio.sleep_until(1.0)  # past
        with trio.move_on_after(1) as scope:
            await trio.sleep(5)
        assert scope.cancelled_caught
        with trio.move_on_at(trio.current_time() - 1) as late:
            await trio.sleep_until(0)
        assert late.cancelled_caught
        return [*times, trio.current_time()]

    assert run(sleeps) == [2.0, 2.0, 3.5, 4.5]


def test_a_deadline_cancels_what_is_inside_its_scope_only() -> None:
    async def nested() -> list[bool]:
        with trio.move_on_after(3) as outer, trio.move_on_after(1) as inner:
            await trio.sleep_forever()
        with trio.move_on_after(1) as around, trio.CancelScope(shield=True) as shielded:
            await trio.sleep(2)
        with trio.move_on_after(1) as caught, trio.move_on_after(2) as passed:
            await trio.sleep(3)
        with trio.CancelScope() as moved:
            moved.deadline = trio.current_time() + 1
            await trio.sleep(2)
        scopes = (outer, inner, around, shielded, caught, passed, moved)
        return [scope.cancelled_caught for scope in scopes]

    assert run(nested) == [False, True, False, False, True, False, True]


def test_a_cancelled_task_is_cancelled_at_each_wait() -> None:
    async def waits() -> int:
        cancelled = 0
        with trio.CancelScope() as scope:
            scope.cancel()
            for wait in (trio.sleep_forever, trio.Event().wait, lambda: trio.sleep(1), trio.lowlevel.checkpoint):
                with pytest.raises(trio.Cancelled):
                    await wait()
                cancelled += 1
            with trio.move_on_after(9) as inside:
                await trio.sleep(1)
            assert not inside.cancelled_caught
        return cancelled

    assert run(waits) == 4


def test_errors_of_tasks_leave_a_nursery_together_and_cancel_the_others() -> None:
    ended: list[str] = []

    async def fail() -> None:
        await trio.sleep(1)
        raise ValueError("planned")

    async def last() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("cancelled")

    async def both() -> None:
        with trio.move_on_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(last)
                nursery.start_soon(fail)

    async def together() -> float:
        with pytest.raises(ExceptionGroup) as raised:
            await both()
        assert [str(error) for error in raised.value.exceptions] == ["planned"]
        with trio.move_on_after(1) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(last)
                nursery.start_soon(last)
        assert scope.cancelled_caught
        return trio.current_time()

    assert run(together) == 2.0
    assert ended == ["cancelled"] * 3


def test_scopes_that_are_not_nested_are_reported() -> None:
    async def misnested() -> None:
        outer, inner = trio.CancelScope(), trio.CancelScope()
        outer.__enter__()
        inner.__enter__()
        with pytest.raises(RuntimeError, match="stack corrupted"):
            outer.__exit__(None, None, None)
        inner.__exit__(None, None, None)
        with pytest.raises(RuntimeError, match="single 'with' block"):
            outer.__enter__()

    run(misnested)
