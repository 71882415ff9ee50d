"""`shrink`: finds a smaller schedule that breaks the same invariant, by leaving out faults and programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from simulation.schedule import Schedule

ATTEMPTS_MAX = 60


class Failed(Protocol):
    """The result of a schedule; `invariant` is "" if nothing failed."""

    invariant: str


Result = TypeVar("Result", bound=Failed)


def shrink(
    schedule: Schedule, result: Result, attempt: Callable[[Schedule], Result], *, attempts_max: int = ATTEMPTS_MAX
) -> tuple[Schedule, Result]:
    """The smallest failing schedule found, with its result.

    Faults are left out in halves, then one by one (delta debugging, Zeller and Hildebrandt, TSE 2002, without the
    complements); then programs. Leaving something out changes the random choices of what follows, so that a failure may
    be gone although its cause is still there: what is found is smaller, not minimal.
    """
    left = attempts_max

    def fails(candidate: Schedule) -> bool:
        nonlocal left, schedule, result
        left -= 1
        tried = attempt(candidate)
        if tried.invariant == result.invariant:
            schedule, result = candidate, tried
            return True
        return False

    for part in ("faults", "programs"):
        size = max(1, len(_keys(schedule, part)) // 2)
        while left > 0:
            keys = _keys(schedule, part)
            for start in range(0, len(keys), size):
                chosen = frozenset(keys[start : start + size])
                if left > 0 and chosen <= frozenset(_keys(schedule, part)):
                    fails(schedule.without(**{part: chosen}))
                    if part == "programs" and schedule.programs and len(_keys(schedule, part)) != len(keys):
                        break  # positions have moved
            if size == 1:
                break
            size //= 2
    return schedule, result


def _keys(schedule: Schedule, part: str) -> Sequence[int]:
    if part == "faults":
        return [fault.number for fault in schedule.faults]
    return range(len(schedule.programs))
