"""Cheaper versions of what the tasks of a simulation do most often in trio: sleep, wait, enter cancel scopes.

Tasks see no difference: every task runs in the same round and with the same outcome, so that a seed has the same hash
with trio's own functions. They hold for every run of trio in the process. Written for trio 0.31 and newer; an older
trio keeps its own functions.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator
from math import inf, isnan
from typing import Any

import sniffio
import trio
from anyio._backends import _trio as anyio_trio
from anyio._core import _eventloop, _synchronization, _tasks
from trio import _timeouts
from trio._core import _run as trio_run
from trio._core._traps import Abort, WaitTaskRescheduled
from trio._util import NoPublicConstructor

CONTEXT = trio_run.GLOBAL_RUN_CONTEXT
_NO_SEND: Any = trio_run._NO_SEND
_original: dict[str, Any] = {}


class _Nothing:
    """The outcome of a task that was woken without one; trio makes a `Value` for each."""

    def unwrap(self) -> None:
        """Nothing."""


class _Cancellation:
    """The outcome of a task whose wait was cancelled; trio raises the exception once more to make an `Error` of it."""

    __slots__ = ("_reason",)

    def __init__(self, reason: Any) -> None:
        self._reason = reason

    def unwrap(self) -> None:
        """Raises trio.Cancelled."""
        _raise_cancelled(self._reason)


def _raise_cancelled(reason: Any) -> None:
    if reason is None:
        raise type.__call__(trio.Cancelled, source="unknown", reason="misnesting")
    raise type.__call__(
        trio.Cancelled, source=reason.source, reason=reason.reason, source_task=reason.source_task
    )


NOTHING = _Nothing()


class _Alarm:
    """A sleeping task, in the heap of trio's deadlines in place of a cancel scope."""

    __slots__ = ("_registered_deadline", "_runner", "_task")

    def __init__(self, runner: Any, task: trio.lowlevel.Task, deadline: float) -> None:
        self._registered_deadline = deadline
        self._runner = runner
        self._task = task

    def _cancel(self, _: object) -> None:
        """The deadline has come."""
        self._forget()
        self._runner.reschedule(self._task)

    def abort(self, _: object) -> Abort:
        """The sleep is cancelled."""
        self._forget()
        return Abort.SUCCEEDED

    def _forget(self) -> None:
        self._runner.deadlines.remove(self._registered_deadline, self)
        self._registered_deadline = inf


def use_cheap_trio() -> None:
    """Let trio use the functions below, in this process, from now on."""
    if _original or "_cancel_reason" not in trio.CancelScope.__slots__:  # type: ignore[attr-defined]
        return
    scope, task, runner = trio.CancelScope, trio_run.Task, trio_run.Runner
    _original.update(enter=scope.__enter__, exit=scope.__exit__, backend=_eventloop.get_async_backend)
    _replace((trio, trio._core, trio_run, anyio_trio), "current_time", current_time)
    _replace((trio.lowlevel, trio._core, trio_run), "wait_task_rescheduled", wait_task_rescheduled)
    _replace((_timeouts, trio, anyio_trio), "sleep_until", sleep_until)
    _replace((_eventloop, _synchronization, _tasks), "get_async_backend", get_async_backend)
    _replace((runner,), "reschedule", _reschedule)
    _replace((task,), "_attempt_delivery_of_any_pending_cancel", _deliver_cancel)
    _replace((scope,), "__enter__", _enter)
    _replace((scope,), "__exit__", _exit)
    NoPublicConstructor.__subclasscheck__ = type.__subclasscheck__  # type: ignore[method-assign, assignment]
    NoPublicConstructor.__instancecheck__ = type.__instancecheck__  # type: ignore[method-assign, assignment]


def _replace(owners: tuple[Any, ...], name: str, function: Callable[..., Any]) -> None:
    for owner in owners:
        if hasattr(owner, name):
            setattr(owner, name, function)


def current_time() -> float:
    """`trio.current_time`."""
    try:
        return float(CONTEXT.runner.clock.current_time())
    except AttributeError:
        raise RuntimeError("must be called from async context") from None


@types.coroutine
def wait_task_rescheduled(abort_func: Any) -> Generator[Any, Any, Any]:
    """`trio.lowlevel.wait_task_rescheduled`, in one frame instead of two."""
    return (yield WaitTaskRescheduled(abort_func)).unwrap()


async def sleep_until(deadline: float) -> None:
    """`trio.sleep_until`, without a cancel scope and an exception."""
    if isnan(deadline):
        raise ValueError("deadline must not be NaN")
    runner = CONTEXT.runner
    task = CONTEXT.task
    alarm = _Alarm(runner, task, deadline)
    if deadline <= runner.clock.current_time():
        with trio.CancelScope(deadline=deadline):
            await trio.sleep_forever()
        return
    if deadline == inf:
        await trio.sleep_forever()
    runner.deadlines.add(deadline, alarm)
    await wait_task_rescheduled(alarm.abort)


def get_async_backend(asynclib_name: str | None = None) -> Any:
    """anyio's: asks the thread first, which names trio while a machine takes a step."""
    if asynclib_name is None and sniffio.thread_local.name == "trio":
        return anyio_trio.TrioBackend
    return _original["backend"](asynclib_name)


def _reschedule(self: Any, task: Any, next_send: Any = _NO_SEND) -> None:
    """`Runner.reschedule`."""
    assert task._runner is self
    assert task._next_send_fn is None
    task._next_send_fn = task.coro.send
    task._next_send = NOTHING if next_send is _NO_SEND else next_send
    task._abort_func = None
    task.custom_sleep_data = None
    if self.is_guest and not self.runq:
        self.force_guest_tick_asap()
    self.runq.append(task)
    instruments = self.instruments
    if instruments and "task_scheduled" in instruments:
        instruments.call("task_scheduled", task)


def _deliver_cancel(self: Any) -> None:
    """`Task._attempt_delivery_of_any_pending_cancel`."""
    abort = self._abort_func
    if abort is None or not self._cancel_status.effectively_cancelled:
        return
    reason = self._cancel_status._scope._cancel_reason
    success = abort(lambda: _raise_cancelled(reason))
    if type(success) is not Abort:
        raise trio.TrioInternalError("abort function must return Abort enum")
    self._abort_func = None
    if success is Abort.SUCCEEDED:
        self._runner.reschedule(self, _Cancellation(reason))


def _enter(self: Any) -> Any:
    """`CancelScope.__enter__`."""
    runner, task = CONTEXT.runner, CONTEXT.task
    parent = task._cancel_status
    if self._has_been_entered or parent is None:
        return _original["enter"](self)
    self._has_been_entered = True
    if self._relative_deadline != inf:
        self._deadline = runner.clock.current_time() + self._relative_deadline
        self._relative_deadline = inf
    deadline = self._deadline
    if deadline != inf and runner.clock.current_time() >= deadline:
        self._cancel(trio_run.CancelReason(source="deadline"))
    self._cancel_status = status = trio_run.CancelStatus(self)
    status._parent = parent
    parent._children.add(status)
    if self._cancel_called:
        status.effectively_cancelled = True
    elif parent.effectively_cancelled and not self._shield:
        status.effectively_cancelled = True
        if self._cancel_reason is None:
            self._cancel_reason = parent._scope._cancel_reason
    parent._tasks.remove(task)
    task._cancel_status = status
    status._tasks.add(task)
    if deadline != inf and not self._cancel_called:
        self._registered_deadline = deadline
        runner.deadlines.add(deadline, self)
    return self


def _exit(self: Any, etype: Any, exc: BaseException | None, tb: Any) -> bool:
    """`CancelScope.__exit__`; trio's own where scopes are not nested properly, or for groups of exceptions."""
    status, task = self._cancel_status, CONTEXT.task
    if (
        status is None
        or status is not task._cancel_status
        or status._children
        or len(status._tasks) != 1
        or isinstance(exc, BaseExceptionGroup)
    ):
        return bool(_original["exit"](self, etype, exc, tb))
    parent = status._parent
    status._tasks.remove(task)
    task._cancel_status = parent
    parent._tasks.add(task)
    caught = (
        exc is not None
        and status.effectively_cancelled
        and (self._shield or not parent.effectively_cancelled)
        and isinstance(exc, trio.Cancelled)
    )
    if caught:
        self.cancelled_caught = True
    status._parent = None
    parent._children.remove(status)
    self._cancel_status = None
    deadline = self._registered_deadline
    if deadline != inf:
        self._registered_deadline = inf
        CONTEXT.runner.deadlines.remove(deadline, self)
    return caught or exc is None
