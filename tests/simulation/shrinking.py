"""`shrink`: finds a smaller schedule that breaks the same invariant, by leaving things out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from simulation.schedule import Schedule

ATTEMPTS_MAX = 150
SECONDS_MAX = 180.0
KINDS = ("faults", "programs", "members", "settings")
SHORTEST_S = 1.0
SIMPLE_LAYOUT = "3"
"""What to try instead of other layouts with three replicas."""


class Failed(Protocol):
    """The result of a schedule; `invariant` is "" if nothing failed."""

    @property
    def invariant(self) -> str: ...


Result = TypeVar("Result", bound=Failed)


def shrink(
    schedule: Schedule,
    result: Result,
    attempt: Callable[[Schedule], Result],
    *,
    attempts_max: int = ATTEMPTS_MAX,
    seconds_max: float = SECONDS_MAX,
    progress: Callable[[str], None] = lambda text: None,
    clock: Callable[[], float] = time.process_time,
) -> tuple[Schedule, Result]:
    """The smallest failing schedule found, with its result.

    Faults, programs, members of groups and settings are left out: all, halves, quarters and so on, at last one by one
    (delta debugging, Zeller and Hildebrandt, TSE 2002). The time is shortened in between. All is tried again until
    nothing more can be left out. What is left keeps its number, and so its random choices; but all that follows in the
    cluster has other times, so that a failure may be gone although its cause is still there. What is found is small,
    not minimal.

    Args:
        attempt: Runs a candidate; its result shows whether it still fails.
        attempts_max: The most schedules to run.
        seconds_max: Nothing is tried after so much processor time.
        progress: Is called with a line after each success.
        clock: Processor time, in seconds.
    """
    return _Shrinking(schedule, result, attempt, attempts_max, clock() + seconds_max, progress, clock).run()


class _Shrinking(Generic[Result]):
    """The state of a search."""

    def __init__(
        self,
        schedule: Schedule,
        result: Result,
        attempt: Callable[[Schedule], Result],
        attempts_max: int,
        ends_at: float,
        progress: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._schedule = schedule
        self._result = result
        self._attempt = attempt
        self._attempts_max = attempts_max
        self._ends_at = ends_at
        self._progress = progress
        self._clock = clock
        self._tried = {schedule}

    def run(self) -> tuple[Schedule, Result]:
        before = None
        while before != self._schedule and not self._is_over:
            before = self._schedule
            for kind in KINDS:
                self._leave_out(kind)
                self._shorten()
            if before.replicas == 3 and before.layout != SIMPLE_LAYOUT:
                self._fails(replace(self._schedule, layout=SIMPLE_LAYOUT))
        return self._schedule, self._result

    @property
    def _is_over(self) -> bool:
        return len(self._tried) > self._attempts_max or self._clock() >= self._ends_at

    def _fails(self, candidate: Schedule) -> bool:
        """Whether a schedule breaks the same invariant; then it is the new one. False for one that was tried before."""
        if candidate in self._tried or self._is_over:
            return False
        self._tried.add(candidate)
        result = self._attempt(candidate)
        if result.invariant != self._result.invariant:
            return False
        self._schedule, self._result = candidate, result
        self._progress(f"shrinking, {len(self._tried) - 1} attempts: {_size(candidate)}")
        return True

    def _leave_out(self, kind: str) -> None:
        """Leave out parts of a kind: all of them, halves, quarters and so on, one by one at last."""
        size = len(self._schedule.parts()[kind])
        while size > 0:
            parts = self._schedule.parts()[kind]
            for start in range(0, len(parts), size):
                self._fails(self._schedule.without(kind, parts[start : start + size]))
            size = min(size, len(self._schedule.parts()[kind])) // 2 if size > 1 else 0

    def _shorten(self) -> None:
        """Let the faults end soon after the last one, or half-way to that."""
        for lasts_s in self._times():
            if lasts_s < self._schedule.lasts_s and self._fails(replace(self._schedule, lasts_s=lasts_s)):
                return

    def _times(self) -> Iterator[float]:
        last_s = max([fault.at_s for fault in self._schedule.faults], default=0.0)
        for share in (0.0, 0.1, 0.25, 0.5, 0.75):
            yield max(SHORTEST_S, round(last_s + 0.1 + share * (self._schedule.lasts_s - last_s), 1))


def _size(schedule: Schedule) -> str:
    counts = {kind: len(parts) for kind, parts in schedule.parts().items()}
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) + f", {schedule.lasts_s:g} s"
