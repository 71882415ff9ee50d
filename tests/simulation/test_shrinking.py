"""Shrinking, with schedules that are never run: a condition says which of them fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from simulation.schedule import FaultAt, ProgramAt, Schedule
from simulation.shrinking import shrink

WHOLE = Schedule(
    seed=7,
    layout="3+2",
    settings=(("min.insync.replicas", "2"), ("log.index.size.max.bytes", "1000"), ("replica.fetch.wait.max.ms", "9")),
    durable=False,
    programs=tuple(ProgramAt(number, f"program {number}") for number in range(6)),
    groups=(("eager", 3), ("static", 2)),
    lasts_s=60.0,
    faults=tuple(FaultAt(number, 2.0 * number, "kill") for number in range(20)),
)


@dataclass(frozen=True)
class Verdict:
    invariant: str


@dataclass
class Attempts:
    """Counts the schedules that were tried."""

    broken: Callable[[Schedule], str]
    count: int = 0

    def __call__(self, schedule: Schedule) -> Verdict:
        self.count += 1
        return Verdict(self.broken(schedule))


def numbers(schedule: Schedule) -> list[int]:
    return [fault.number for fault in schedule.faults]


def needs(*faults: int, program: int = 4) -> Callable[[Schedule], str]:
    def broken(schedule: Schedule) -> str:
        programs = [one.number for one in schedule.programs]
        return "loss" if set(faults) <= set(numbers(schedule)) and program in programs else ""

    return broken


def test_only_what_the_failure_needs_is_left_with_its_numbers_and_times() -> None:
    attempts = Attempts(needs(3, 17))
    smallest, result = shrink(WHOLE, Verdict("loss"), attempts)
    assert result.invariant == "loss"
    assert smallest == Schedule(
        seed=7,
        layout="3",
        settings=(("min.insync.replicas", "2"),),
        durable=False,
        programs=(ProgramAt(4, "program 4"),),
        groups=(),
        lasts_s=34.1,
        faults=(FaultAt(3, 6.0, "kill"), FaultAt(17, 34.0, "kill")),
    )
    assert attempts.count < 60


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("faults", [0, 9, 19]),
        ("programs", [0, 5]),
        ("members", [("eager", 0), ("static", 0), ("static", 1)]),
        ("settings", ["replica.fetch.wait.max.ms"]),
    ],
)
def test_each_kind_of_part_is_left_out_unless_the_failure_needs_it(kind: str, kept: list[object]) -> None:
    def broken(schedule: Schedule) -> str:
        return "loss" if all(part in schedule.parts()[kind] for part in kept) else ""

    smallest, _ = shrink(WHOLE, Verdict("loss"), Attempts(broken))
    assert {name: parts for name, parts in smallest.parts().items() if parts} == {kind: kept}


def test_a_schedule_that_breaks_something_else_is_not_accepted() -> None:
    def broken(schedule: Schedule) -> str:
        return "loss" if 5 in numbers(schedule) else "the cluster does not start"

    smallest, result = shrink(WHOLE, Verdict("loss"), Attempts(broken))
    assert (numbers(smallest), result.invariant) == ([5], "loss")


def test_the_time_is_no_shorter_than_the_failure_needs() -> None:
    def broken(schedule: Schedule) -> str:
        return "loss" if schedule.lasts_s >= 12 else ""

    assert shrink(WHOLE, Verdict("loss"), Attempts(broken))[0].lasts_s == pytest.approx(12, abs=4)


def test_what_can_be_left_out_only_after_something_else_is_left_out_too() -> None:
    def broken(schedule: Schedule) -> str:
        return "loss" if not schedule.groups or 0 in numbers(schedule) else ""

    smallest, _ = shrink(WHOLE, Verdict("loss"), Attempts(broken))
    assert smallest.faults == ()


def test_attempts_are_limited_and_no_schedule_is_tried_twice() -> None:
    seen: dict[Schedule, None] = {}

    def broken(schedule: Schedule) -> str:
        assert schedule not in seen
        seen[schedule] = None
        return needs(3, 4, 17)(schedule)

    shrink(WHOLE, Verdict("loss"), Attempts(broken))
    attempts = Attempts(needs(3, 4, 17))
    smallest, _ = shrink(WHOLE, Verdict("loss"), attempts, attempts_max=10)
    assert attempts.count == 10 < len(seen)
    assert {3, 4, 17} <= set(numbers(smallest))


def test_processor_time_is_limited() -> None:
    attempts = Attempts(needs(3))
    shrink(WHOLE, Verdict("loss"), attempts, seconds_max=100.0, clock=lambda: 30.0 * attempts.count)
    assert attempts.count == 4


def test_progress_is_told_after_each_success() -> None:
    told: list[str] = []
    shrink(replace(WHOLE, settings=()), Verdict("loss"), Attempts(needs(3)), progress=told.append)
    assert told[-1].endswith("1 faults, 1 programs, 0 members, 0 settings, 6.1 s")
