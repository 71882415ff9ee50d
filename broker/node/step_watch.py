"""Measures the steps of tasks: which of them used more of the processor than the budget, so that all others waited.

A step is what a task does between two points where it waits. `StepWatch` is a trio instrument with one hook per step,
which reads a clock; the hook costs 0.5 µs. Only steps that lasted longer than the budget are looked at closer. The CPU
time of the loop's thread is read once per round of the loop and at long steps, since reading it is a system call; what
earlier steps of the round lasted is subtracted. So a step is never charged with the time of others, or with time when
the machine ran something else; on a busy machine its CPU time may be understated.

A collection of garbage is not counted as a step's own time. Bound: the objects made since the start (`gc.freeze`,
`main.py`); 0.1 s for a million. It happens in whichever step makes the 50,000th object, and is reported as
`collection_ms`, beside the step's CPU time. `docs/operations/limits.md` lists what else is not cut.

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
    """A step above the budget.

    Attributes:
        task: The task's name.
        cpu_s: The CPU time of the step, without collections of garbage.
        collection_s: Collections of garbage within the step.
        waits_in: Where the task waits now: `file:line function`, outermost first; empty if it ended.
        stack: Where the task was while it exceeded the budget, innermost last; empty without a `StackSampler`.
    """

    task: str
    cpu_s: float
    collection_s: float
    waits_in: tuple[str, ...]
    stack: tuple[str, ...] = ()


class StepWatch(trio.abc.Instrument):
    """Finds steps above a budget; an instrument of one `trio.run`.

    Args:
        found: Called with each long step, within the loop.
        clock: Seconds that only grow; cheap.
        cpu_clock: CPU seconds of this thread.
        budget_s: The longest step that is not reported.

    Attributes:
        longest: The longest step so far, in CPU seconds; 0 while none was above the budget.
        steps: How many steps were above the budget.
        collections_s: How long collections of garbage took in all.
        idle_s: How long the loop has waited in all.
        rounds: How many rounds of the loop have begun.
        began: When the step in progress began, on `clock`; infinity while the loop waits. Read by a `StackSampler`.
        sampled: The latest sample: when its step began, and the stack. Written by a `StackSampler`.
    """

    def __init__(
        self,
        found: Callable[[LongStep], None],
        *,
        clock: Callable[[], float],
        cpu_clock: Callable[[], float],
        budget_s: float = BUDGET_S,
    ) -> None:
        self.longest = 0.0
        self.steps = self.rounds = 0
        self.collections_s = self.idle_s = 0.0
        self._waits_since: float | None = None
        self.budget_s = budget_s
        self.began = float("inf")
        self.sampled: tuple[float, tuple[str, ...]] = (0.0, ())
        self._found = found
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._task: trio.lowlevel.Task | None = None
        self._round_began = self._round_cpu = 0.0
        self._collection_began = self._collected_s = 0.0

    def after_io_wait(self, timeout: float) -> None:
        """A round of the loop begins."""
        self.rounds += 1
        self._task = None
        now = self._clock()
        if self._waits_since is not None:
            self.idle_s += now - self._waits_since
        self._begin_round(now)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """The last step is over, and the next one begins."""
        now = self._clock()
        if now - self.began > self.budget_s:
            self._examine(now)
        self.began = now
        self._task = task

    def before_io_wait(self, timeout: float) -> None:
        """The round is over."""
        now = self._clock()
        if now - self.began > self.budget_s:
            self._examine(now)
        self.began = float("inf")
        self._waits_since = now

    def begin_anew(self) -> None:
        """What the step in progress did so far does not count: nobody is served yet, so that nobody waited."""
        self._begin_round(self._clock())

    def collection(self, phase: str, info: dict[str, int]) -> None:
        """A callback for `gc.callbacks`."""
        if phase == "start":
            self._collection_began = self._clock()
        else:
            lasted_s = self._clock() - self._collection_began
            self._collected_s += lasted_s
            self.collections_s += lasted_s

    def _begin_round(self, now: float) -> None:
        self.began = self._round_began = now
        self._round_cpu = self._cpu_clock()
        self._collected_s = 0.0

    def _examine(self, now: float) -> None:
        used_s = self._cpu_clock() - self._round_cpu - (self.began - self._round_began)
        cpu_s = min(used_s, now - self.began) - self._collected_s
        if cpu_s > self.budget_s:
            self.longest = max(self.longest, cpu_s)
            self.steps += 1
            stack = self.sampled[1] if self.sampled[0] == self.began else ()
            name = TRIO_ITSELF if self._task is None else self._task.name
            self._found(LongStep(name, cpu_s, self._collected_s, _waits_in(self._task), stack))
        self._begin_round(now)


def _waits_in(task: trio.lowlevel.Task | None) -> tuple[str, ...]:
    if task is None:
        return ()
    frames = [place(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in task.iter_await_frames()]
    return tuple(frames[-FRAMES_MAX:])


def place(path: str, line: int, function: str) -> str:
    """A line of a stack: the last two parts of the path, the line and the function."""
    return f"{'/'.join(path.rsplit('/', 2)[-2:])}:{line} {function}"


class StepLog:
    """Logs long steps: at most `LINES_MAX` lines in `PERIOD_S`; the next line says how many were left out.

    Args:
        clock: Seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._period_began = float("-inf")
        self._lines = 0
        self._left_out = 0

    def found(self, step: LongStep) -> None:
        """Log a step, unless too many were logged lately."""
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
