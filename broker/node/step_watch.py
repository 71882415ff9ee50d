"""Finds long steps of tasks: steps that use more CPU time than the budget, while all other tasks wait.

A step is the code that a task runs between two points where it waits. `StepWatch` is a trio instrument with one hook
per step, which reads a clock; the hook costs 0.5 µs. Only steps that lasted longer than the budget are examined. The
CPU time of the loop's thread is read once per round of the loop and at long steps, since reading it is a system call.
The duration of the earlier steps of the round is subtracted from it. So a step is never charged with the time of other
steps, or with time when the machine ran another process; on a busy machine its CPU time may be understated.

Garbage collection is not counted as a step's own time. Its duration is bounded by the number of objects made since the
start (`gc.freeze`, `main.py`): 0.1 s for a million. A collection happens in the step that makes the 50,000th object,
and is reported as `collection_ms`, beside the step's CPU time. `docs/operations/limits.md` lists other long steps that
are not divided.

Pure: clocks are passed in.
"""

from collections.abc import Callable
from dataclasses import dataclass

import structlog
import trio

log = structlog.get_logger("minikafka.steps")

BUDGET_S = 0.020
FRAMES_MAX = 12
LINES_MAX, PERIOD_S = 10, 10.0
TRIO_ITSELF = "the event loop"


@dataclass(slots=True, frozen=True)
class LongStep:
    """A step that used more CPU time than the budget.

    Attributes:
        task: The task's name.
        cpu_s: The CPU time of the step in seconds, without garbage collections.
        collection_s: The duration of the garbage collections within the step, in seconds.
        waits_in: The places where the task waits now: `file:line function`, outermost first; empty if the task ended.
        stack: The stack of the task while it exceeded the budget, innermost last; empty without a `StackSampler`.
    """

    task: str
    cpu_s: float
    collection_s: float
    waits_in: tuple[str, ...]
    stack: tuple[str, ...] = ()


@dataclass(slots=True)
class Measured:
    """What was measured of the event loop since the start.

    Attributes:
        longest: The longest step, in CPU seconds; 0 while no step was above the budget.
        steps: The number of steps above the budget.
        rounds: The number of rounds of the loop that have begun.
        idle_s: The total time for which the loop has waited, in seconds.
        collections_s: The total duration of garbage collections, in seconds.
    """

    longest: float = 0.0
    steps: int = 0
    rounds: int = 0
    idle_s: float = 0.0
    collections_s: float = 0.0


@dataclass(slots=True)
class _Round:
    """What was measured when the round of the loop began, or when its last long step ended."""

    began: float = 0.0
    cpu_s: float = 0.0
    collections_s: float = 0.0


class StepWatch(trio.abc.Instrument):
    """Finds steps above a budget; an instrument of one `trio.run`.

    Args:
        found: Called with each long step, within the loop.
        clock: A monotonic clock in seconds, which must be cheap to read.
        cpu_clock: The CPU time of this thread, in seconds.
        budget_s: The longest step that is not reported, in seconds.

    Attributes:
        measured: What was measured since the start.
        began: The time when the step in progress began, on `clock`; infinity while the loop waits. Read by a
            `StackSampler`.
        sampled: The latest sample: the time when its step began, and the stack. Written by a `StackSampler`.
    """

    def __init__(
        self,
        found: Callable[[LongStep], None],
        *,
        clock: Callable[[], float],
        cpu_clock: Callable[[], float],
        budget_s: float = BUDGET_S,
    ) -> None:
        self.measured = Measured()
        self._waits_since: float | None = None
        self.budget_s = budget_s
        self.began = float("inf")
        self.sampled: tuple[float, tuple[str, ...]] = (0.0, ())
        self._found = found
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._task: trio.lowlevel.Task | None = None
        self._round = _Round()
        self._collection_began = 0.0

    def after_io_wait(self, timeout: float) -> None:
        """Called by trio when a round of the loop begins."""
        self.measured.rounds += 1
        self._task = None
        now = self._clock()
        if self._waits_since is not None:
            self.measured.idle_s += now - self._waits_since
        self._begin_round(now)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Called by trio when a step of a task begins; the previous step has ended."""
        now = self._clock()
        if now - self.began > self.budget_s:
            self._examine(now)
        self.began = now
        self._task = task

    def before_io_wait(self, timeout: float) -> None:
        """Called by trio when a round of the loop ends."""
        now = self._clock()
        if now - self.began > self.budget_s:
            self._examine(now)
        self.began = float("inf")
        self._waits_since = now

    def begin_anew(self) -> None:
        """Measure the step in progress from now on: no client is served yet, so nobody has waited for the step."""
        self._begin_round(self._clock())

    def collection(self, phase: str, info: dict[str, int]) -> None:
        """Measure a garbage collection. To be added to `gc.callbacks`, which defines the arguments."""
        if phase == "start":
            self._collection_began = self._clock()
        else:
            self.measured.collections_s += self._clock() - self._collection_began

    def _begin_round(self, now: float) -> None:
        this = self._round
        self.began = this.began = now
        this.cpu_s, this.collections_s = self._cpu_clock(), self.measured.collections_s

    def _examine(self, now: float) -> None:
        measured, collected_s = self.measured, self.measured.collections_s - self._round.collections_s
        used_s = self._cpu_clock() - self._round.cpu_s - (self.began - self._round.began)
        cpu_s = min(used_s, now - self.began) - collected_s
        if cpu_s > self.budget_s:
            measured.longest = max(measured.longest, cpu_s)
            measured.steps += 1
            stack = self.sampled[1] if self.sampled[0] == self.began else ()
            name = TRIO_ITSELF if self._task is None else self._task.name
            self._found(LongStep(name, cpu_s, collected_s, _waits_in(self._task), stack))
        self._begin_round(now)


def _waits_in(task: trio.lowlevel.Task | None) -> tuple[str, ...]:
    if task is None:
        return ()
    frames = [place(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in task.iter_await_frames()]
    return tuple(frames[-FRAMES_MAX:])


def place(path: str, line: int, function: str) -> str:
    """Format a line of a stack: the last two parts of the path, the line number and the function."""
    return f"{'/'.join(path.rsplit('/', 2)[-2:])}:{line} {function}"


class StepLog:
    """Logs long steps: at most `LINES_MAX` lines in `PERIOD_S` seconds.

    The line after the period tells how many steps were left out.

    Args:
        clock: A monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._period_began = float("-inf")
        self._lines = 0
        self._left_out = 0

    def found(self, step: LongStep) -> None:
        """Log a step, unless too many steps were logged in this period."""
        now = self._clock()
        if now - self._period_began > PERIOD_S:
            self._period_began, self._lines = now, 0
        if self._lines >= LINES_MAX:
            self._left_out += 1
            return
        self._lines += 1
        left_out, self._left_out = self._left_out, 0
        log.warning(
            "long step",
            task=step.task,
            cpu_ms=round(step.cpu_s * 1000, 1),
            collection_ms=round(step.collection_s * 1000, 1),
            waits_in=step.waits_in,
            stack=step.stack,
            left_out=left_out,
        )
