"""What a person reads about a failing seed."""

from __future__ import annotations

import sys
from heapq import merge
from itertools import groupby
from shlex import join

from simulation.schedule import Schedule
from simulation.shrinking import shrink
from simulation.stored import to_options, to_toml
from simulation.trial import Result, try_schedule

LAST_EVENTS = 15
LINE_MAX = 400


def report_failure(result: Result, *, shrunk: bool) -> list[str]:
    """Lines about a failure: the invariant, the last events of each host, the schedule, how to run it again.

    Args:
        shrunk: Look for a smaller schedule first.
    """
    schedule = result.schedule
    if shrunk:
        schedule, result = shrink(schedule, result, try_schedule, progress=_print_progress)
    return [
        f"FAILED seed {result.seed}: {evidence(result)}",
        f"-- the last {LAST_EVENTS} events of each host, in the order of time",
        *last_events(result.recent),
        f"-- the schedule{', shrunk' if shrunk else ''}",
        *schedule.describe(),
        f"-- to keep as tests/simulation/failed/{result.seed}-{_file_name(result.invariant)}.toml",
        to_toml(schedule, result.invariant),
        *_commands(schedule),
    ]


def evidence(result: Result) -> str:
    """What showed a failure; long lines are cut."""
    return "\n".join(line[:LINE_MAX] for line in result.evidence.splitlines())


def last_events(recent: dict[str, list[str]], count: int = LAST_EVENTS) -> list[str]:
    """The last events of each host, in one list by time; each line begins with its time. Similar lines are one."""
    hosts = (_without_repetitions(lines)[-count:] for _, lines in sorted(recent.items()))
    return [line[:LINE_MAX] for line in merge(*hosts, key=lambda line: float(line.split(maxsplit=1)[0]))]


def _without_repetitions(lines: list[str]) -> list[str]:
    """One line for lines in a row that only have other keys."""
    found: list[str] = []
    for _, group in groupby(lines, key=lambda line: line.split(maxsplit=1)[1].partition("=")[0]):
        first, *others = group
        found.append(f"{first} (and {len(others)} like it)" if others else first)
    return found


def _commands(schedule: Schedule) -> list[str]:
    options = to_options(schedule)
    lines = [f"the whole seed again: make sim SEED={schedule.seed}"]
    if len(options) > 2:
        lines.append(f"this schedule again: PYTHONPATH=tests .venv/bin/python -m simulation.seeds {join(options)}")
    return lines


def _file_name(invariant: str) -> str:
    return "-".join("".join(letter if letter.isalnum() else " " for letter in invariant.lower()).split()[:8])


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
