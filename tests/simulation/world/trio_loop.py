"""A round of trio's loop without what a simulation never has, and cheaper waits: the same steps in less time.

`trio.run` asks in each round for instruments, input, interrupts and idle tasks, calls a generator for each change of a
deadline, and raises an exception to end a sleep. A simulated second has a thousand rounds. What the tasks see is the
same: same order, same outcomes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any

import trio
from outcome import Error, Value
from trio._core import _run as trio_run
from trio._core._traps import CancelShieldedCheckpoint, WaitTaskRescheduled

TRACEBACK_FRAMES = 1 + trio_run.CONTEXT_RUN_TB_FRAMES
STALE_MAX = 1000
"""Trio removes stale deadlines above this number, and so does `expire`."""


def run_ready_tasks(runner: Any, now: float) -> float:
    """One round: every task that is ready runs until it waits.

    Args:
        runner: trio's `Runner`.
        now: by the clock of the run, in seconds.

    Returns:
        How long the run may then sleep, in seconds; 0.0 if a task is ready.
    """
    deadlines, ready = runner.deadlines, runner.runq
    heap = deadlines._heap
    if heap and (heap[0][0] <= now or len(heap) > deadlines._active * 2 + STALE_MAX):
        deadlines.expire(now)
    batch = list(ready)
    ready.clear()
    if len(batch) > 1:
        batch.sort(key=_number)
        trio_run._r.shuffle(batch)
    context = trio_run.GLOBAL_RUN_CONTEXT
    while batch:
        context.task = task = batch.pop()
        _run(runner, task)
        del context.task
    return 0.0 if ready else float(max(0.0, deadlines.next_deadline() - now))


def _number(task: trio.lowlevel.Task) -> int:
    return task._counter


def _run(runner: Any, task: Any) -> None:
    """Run one task until it waits or ends."""
    send, value = task._next_send_fn, task._next_send
    task._next_send_fn = task._next_send = None
    try:
        message = task.context.run(send, value)
    except StopIteration as stop:
        outcome: Any = Value(stop.value)
    except BaseException as error:  # noqa: BLE001 (the outcome of a task)
        outcome = Error(error.with_traceback(_below(error.__traceback__)))
    else:
        task._schedule_points += 1
        if message is CancelShieldedCheckpoint:
            runner.reschedule(task)
            return
        assert type(message) is WaitTaskRescheduled, message
        task._cancel_points += 1
        task._abort_func = message.abort_func
        task._attempt_delivery_of_any_pending_cancel()
        return
    runner.task_exited(task, outcome)


def _below(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this loop."""
    for _ in range(TRACEBACK_FRAMES):
        traceback = None if traceback is None else traceback.tb_next
    return traceback


class _DeadlineChange:
    """Registers the new deadline of a scope, as trio's `_might_change_registered_deadline` does."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Any) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        """Nothing: the change comes next."""

    def __exit__(self, *_: object) -> None:
        scope = self._scope
        old = scope._registered_deadline
        new = float("inf") if scope._cancel_status is None or scope._cancel_called else scope._deadline
        if old == new:
            return
        scope._registered_deadline = new
        runner = trio_run.GLOBAL_RUN_CONTEXT.runner
        deadlines = runner.deadlines
        if old != float("inf"):
            deadlines.remove(old, scope)
        if new != float("inf"):
            deadlines.add(new, scope)
        if runner.is_guest:
            runner.force_guest_tick_asap()


class _Nothing:
    """The outcome `Value(None)`, which most waits have: one for all of them."""

    def unwrap(self) -> None:
        """The value."""


_NOTHING = _Nothing()


def _reschedule(runner: Any, task: Any, next_send: Any = trio_run._NO_SEND) -> None:
    """See `trio.lowlevel.reschedule`."""
    assert task._runner is runner
    assert task._next_send_fn is None
    task._next_send_fn = task.coro.send
    task._next_send = _NOTHING if next_send is trio_run._NO_SEND else next_send
    task._abort_func = task.custom_sleep_data = None
    if not runner.runq and runner.is_guest:
        runner.force_guest_tick_asap()
    runner.runq.append(task)
    if "task_scheduled" in runner.instruments:
        runner.instruments.call("task_scheduled", task)


@types.coroutine
def _wait_task_rescheduled(abort: Callable[[Any], trio.lowlevel.Abort]) -> Generator[object, Any, Any]:
    """See `trio.lowlevel.wait_task_rescheduled`."""
    outcome = yield WaitTaskRescheduled(abort)
    if outcome is _NOTHING:
        return None
    try:
        return outcome.unwrap()
    finally:
        del outcome  # An error's traceback has this frame: what is waited for would be kept by a cycle.


class _Timer:
    """What trio's `Deadlines` needs to know of a cancel scope, for a task that sleeps."""

    __slots__ = ("_deadlines", "_registered_deadline", "_task")

    def __init__(self, deadlines: Any, deadline: float, task: trio.lowlevel.Task) -> None:
        self._deadlines, self._registered_deadline, self._task = deadlines, deadline, task
        deadlines.add(deadline, self)

    def _cancel(self, _: object) -> None:
        """The deadline has come."""
        self._remove()
        trio.lowlevel.reschedule(self._task)

    def abort(self, _: object) -> trio.lowlevel.Abort:
        """The task is cancelled."""
        self._remove()
        return trio.lowlevel.Abort.SUCCEEDED

    def _remove(self) -> None:
        self._deadlines.remove(self._registered_deadline, self)
        self._registered_deadline = float("inf")


_sleep_until = trio.sleep_until


async def _cheap_sleep_until(deadline: float) -> None:
    """See `trio.sleep_until`."""
    if not trio.current_time() < deadline < float("inf"):
        await _sleep_until(deadline)
        return
    timer = _Timer(trio_run.GLOBAL_RUN_CONTEXT.runner.deadlines, deadline, trio.lowlevel.current_task())
    await _wait_task_rescheduled(timer.abort)


def cheap_waits() -> None:
    """Have tasks wait and sleep, and cancel scopes register their deadlines, in less time; in other runs, too."""
    trio.CancelScope._might_change_registered_deadline = lambda scope: _DeadlineChange(scope)  # type: ignore[method-assign, assignment, return-value]
    trio_run.Runner.reschedule = _reschedule  # type: ignore[method-assign, assignment]
    for module in (trio_run, trio._core, trio.lowlevel):
        module.wait_task_rescheduled = _wait_task_rescheduled  # type: ignore[attr-defined]
    for module in (trio, trio._timeouts):
        module.sleep_until = _cheap_sleep_until  # type: ignore[attr-defined]
