"""A round of trio's loop without what a simulation never has, and cheaper deadlines: the same steps in less time.

`trio.run` asks in each round for instruments, input, interrupts and idle tasks, and calls a generator for each change
of a deadline. A simulated second has a thousand rounds. What the tasks see is the same: same order, same outcomes.
"""

from __future__ import annotations

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


def cheap_deadlines() -> None:
    """Have cancel scopes register their deadlines without a generator."""
    trio.CancelScope._might_change_registered_deadline = lambda scope: _DeadlineChange(scope)  # type: ignore[method-assign, assignment, return-value]
