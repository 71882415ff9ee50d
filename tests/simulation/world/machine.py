"""`Machine`: a simulated process: a trio run of its own, which the world steps, pauses and kills.

It drives trio's loop itself (`trio_loop.py`), with trio's scheduler seeded: tasks that are ready run in an order that
the seed decides. Each machine has its own monotonic clock and its own wall clock. Only these two files use trio's
internals.
"""

from __future__ import annotations

import contextvars
import sys
import warnings
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar

import sniffio
import trio
from outcome import Error, Value
from trio._core import _run as trio_run
from trio._core._entry_queue import EntryQueue
from trio._core._ki import KIManager

from minikafka.broker.node.step_watch import StepWatch
from simulation.world.trio_loop import cheap_waits, run_ready_tasks

Result = TypeVar("Result")
CLOSE_ATTEMPTS = 20
BUSIEST_MAX = 8


class HasTime(Protocol):
    """What knows the virtual time: an attribute, as it is read several times in each step."""

    now: float


class MachineClock(trio.abc.Clock):
    """The monotonic clock of a machine: virtual time plus the machine's uptime at the beginning."""

    def __init__(self, world: HasTime, uptime_s: float) -> None:
        self._world = world
        self._uptime_s = uptime_s

    def start_clock(self) -> None:
        """Nothing: virtual time is always running."""

    def current_time(self) -> float:
        return self._world.now + self._uptime_s

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return deadline - self.current_time()


class _NoInstruments(dict[str, Any]):
    """Replaces trio's `Instruments`, a `UserDict` that each step asks several times whether it has something."""

    def call(self, *_: object) -> None:
        """Nothing: there are no instruments."""


class MachineWatch(StepWatch):
    """Measures the steps of all machines, one after the other; see `simulation.steps`.

    Attributes:
        machine: The one that took the latest step.
    """

    machine: Machine | None = None

    def aside(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Call a function that runs in a thread of a real process: the task's step begins after it."""
        try:
            return function(*arguments)
        finally:
            self.begin_anew()


class _Watched(dict[str, Any]):
    """Replaces trio's `Instruments` by the watch."""

    def __init__(self, watch: MachineWatch, machine: Machine) -> None:
        super().__init__(before_task_step=watch, before_io_wait=watch, after_io_wait=watch)
        self._watch, self._machine = watch, machine

    def call(self, hook: str, *arguments: object) -> None:
        """Calls the hook of the watch."""
        self._watch.machine = self._machine
        getattr(self._watch, hook)(*arguments)


class _NoInput:
    """Replaces trio's I/O manager: a machine waits for simulated connections only, which wake its tasks themselves."""

    def process_events(self, events: object) -> None:
        """Nothing: there are no events of the operating system."""

    def close(self) -> None:
        """Nothing to close."""


class _Wakeup:
    """Replaces the socket pair that wakes the task for `run_sync_soon`."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: trio.lowlevel.Task | None = None

    async def wait_woken(self) -> None:
        while not self._is_set:
            self._waiter = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        self._is_set = False

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._waiter = None
        return trio.lowlevel.Abort.SUCCEEDED

    def wakeup_thread_and_signal_safe(self) -> None:
        self._is_set = True
        if self._waiter is not None:
            waiter, self._waiter = self._waiter, None
            trio.lowlevel.reschedule(waiter)

    def close(self) -> None:
        """Nothing to close."""


def seed_scheduler(random: Random) -> None:
    """Let the order of ready tasks depend on this seed alone, in all machines."""
    trio_run._ALLOW_DETERMINISTIC_SCHEDULING = True
    trio_run._r = random
    cheap_waits()


def _weakly(hook: Any) -> Callable[[object], None]:
    """A hook that does not keep its run: the collector does not see that an asynchronous generator keeps its hook."""
    reference = weakref.ref(hook)

    def call(generator: object) -> None:
        known = reference()
        if known is not None:
            known(generator)

    return call


def _short(name: str) -> str:
    return ".".join(name.split(".")[-2:])


def _place(task: trio.lowlevel.Task) -> str:
    """Where a task waits: its innermost line in the product, or in its own function."""
    frames = list(task.iter_await_frames())
    ours = [one for one in frames if str(one[0].f_globals["__name__"]).startswith("minikafka.")]
    frame, line = ours[-1] if ours else frames[0]
    return f"{Path(frame.f_code.co_filename).name}:{line}"


class Machine:
    """A process that runs one async function; a restart is a new `Machine` of the same host.

    Args:
        name: The host, and the incarnation: `node-1/2`.
        host: Its address in the network.
        world: Virtual time, in seconds.
        uptime_s: What the monotonic clock shows at virtual time 0.
        woken: Called when the machine has something to do, because of a call from outside.

    Attributes:
        ended: It has returned, raised or been killed.
        doomed: It is to be killed after its step.
        failure: The exception that ended it.
        steps: How many steps it has taken.
    """

    def __init__(
        self,
        name: str,
        host: str,
        world: HasTime,
        *,
        uptime_s: float = 0.0,
        woken: Callable[[Machine], None] = lambda machine: None,
    ) -> None:
        self.name = name
        self.host = host
        self.ended = False
        self.killed = False
        self.doomed = False
        self.failure: BaseException | None = None
        self.steps = 0
        self.due = float("inf")
        """When it wants its next step, in virtual time."""
        self.busy_until = 0.0
        self.paused_until = 0.0
        self.on_end: list[Callable[[], None]] = []
        self._woken = woken
        self._clock = MachineClock(world, uptime_s)
        self._runner: Any = None
        self._instruments: _NoInstruments | _Watched = _NoInstruments()
        self._steps: Any = None
        self._hooks: Any = None
        self._finalizer: Any = None

    def __repr__(self) -> str:
        return self.name

    step_watch: MachineWatch | None = None
    """Measures the steps of all machines that boot while it is set."""

    def boot(self, function: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Begin to run `function`; it takes its first step when the world steps the machine."""
        watch = self.step_watch
        self._instruments = _NoInstruments() if watch is None else _Watched(watch, self)
        runner = self._runner = trio_run.Runner(
            clock=self._clock,
            instruments=self._instruments,  # type: ignore[arg-type]
            io_manager=_NoInput(),  # type: ignore[arg-type]
            entry_queue=EntryQueue(wakeup=_Wakeup()),  # type: ignore[arg-type]
            ki_manager=KIManager(),
            strict_exception_groups=True,
            system_context=contextvars.copy_context(),
        )
        before = sys.get_asyncgen_hooks()
        runner.asyncgens.install_hooks(runner)
        first_iteration, self._finalizer = sys.get_asyncgen_hooks()
        self._hooks = first_iteration, _weakly(self._finalizer)
        sys.set_asyncgen_hooks(*before)
        self._steps = trio_run.unrolled_run(runner, function, arguments, host_uses_signal_set_wakeup_fd=True)
        self.step()

    def step(self, rounds: int = 1) -> float:
        """Run every task that is ready, once, and what that makes ready, `rounds` times at most.

        Returns how long the machine may then sleep, in seconds. A machine that is to be killed stops after a round.
        """
        context = trio_run.GLOBAL_RUN_CONTEXT
        context.runner = self._runner
        sys.set_asyncgen_hooks(*self._hooks)
        library, sniffio.thread_local.name = sniffio.thread_local.name, "trio"
        try:
            sleeps_s = self._round()
            while sleeps_s == 0.0 and rounds > 1 and not self.doomed:
                rounds -= 1
                sleeps_s = self._round()
            return sleeps_s
        except StopIteration:
            self._end(self._runner.main_task_outcome)
            return float("inf")
        finally:
            self._instruments.call("before_io_wait", 0.0)  # trio does not tell that the last step of a run is over
            sniffio.thread_local.name = library
            context.__dict__.clear()
            sys.set_asyncgen_hooks(None, None)

    def _round(self) -> float:
        """One round of the loop. The first and the last one are trio's own: they begin and end the run."""
        runner = self._runner
        if runner.init_task is None or self._instruments:
            return float(self._steps.send(None))
        sleeps_s = run_ready_tasks(runner, self._clock.current_time())
        return sleeps_s if runner.tasks else float(self._steps.send(None))

    def _end(self, outcome: object) -> None:
        if isinstance(outcome, Error):
            self.failure = outcome.error
        else:
            assert isinstance(outcome, Value)
        self._finish()

    def _finish(self) -> None:
        self.ended = True
        self.due = float("inf")
        for callback in self.on_end:
            callback()

    def turns(self) -> dict[int, int]:
        """How often each of its tasks has run, by a number of the task."""
        return {task._counter: task._schedule_points for task in self._runner.tasks}

    def busiest(self, before: Mapping[int, int]) -> list[str]:
        """The tasks that ran most often since an earlier `turns`, each with the line of the product where it waits."""
        often: Counter[str] = Counter()
        for task in self._runner.tasks:
            often[f"{_short(task.name)} ({_place(task)})"] += task._schedule_points - before.get(task._counter, 0)
        return [f"{name} {turns} times" for name, turns in often.most_common(BUSIEST_MAX)]

    def reschedule(self, task: trio.lowlevel.Task) -> None:
        """Wake a task of this machine, from outside. Nothing, once it has ended."""
        if not self.ended:
            self._runner.reschedule(task)
            self._woken(self)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function that wakes tasks of this machine, from outside. Nothing, once it has ended."""
        if self.ended:
            return
        context = trio_run.GLOBAL_RUN_CONTEXT
        around = dict(context.__dict__)
        context.__dict__.clear()
        context.runner = self._runner
        try:
            function(*arguments)
        finally:
            context.__dict__.clear()
            context.__dict__.update(around)
        self._woken(self)

    def kill(self) -> None:
        """End between two steps. No `finally` has an effect: disk and network are dead first, by `on_end`.

        Must not be called by a task of this machine.
        """
        if self.ended:
            return
        self.killed = True
        self._finish()
        self._abandon()

    def _abandon(self) -> None:
        """Close the coroutines, so that nothing of the run is left; what they raise and log is ignored."""
        tasks = sorted(self._runner.tasks, key=lambda task: task._counter)
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._steps.close()
                for task in tasks:
                    for _ in range(CLOSE_ATTEMPTS):  # an `await` in a `finally` begins to wait again
                        with suppress(BaseException):
                            task.coro.close()
                            break
                    for nursery in task.child_nurseries:
                        nursery._children.clear()  # else its `__del__` complains
                    trio_run.GLOBAL_PARKING_LOT_BREAKER.pop(task, None)  # trio's list of who holds locks
            self._runner = self._steps = None
        finally:
            sys.unraisablehook = hook
