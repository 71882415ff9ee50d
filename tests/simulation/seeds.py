"""Simulates whole clusters under faults: the command behind `make sim`.

    PYTHONPATH=tests python -m simulation.seeds --seeds 1000        # seeds 0 to 999; --first 5000, --jobs 2
    PYTHONPATH=tests python -m simulation.seeds --seed 123          # one seed; --trace prints every event

A failing seed prints its number, the broken invariant, the last events of each node, and a schedule that was shrunk to
what the failure needs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from simulation.scenario import Failure, Outcome, Scenario
from simulation.schedule import Schedule, draw
from simulation.shrinking import shrink

LAST_EVENTS = 25


@dataclass
class Result:
    """The result of a seed: an outcome, or a failure with the invariant that it broke."""

    seed: int
    outcome: Outcome | None
    failure: str = ""
    invariant: str = ""
    seconds: float = 0.0
    recent: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def try_seed(schedule: Schedule, listener: Callable[[str], None] | None = None) -> Result:
    """Run a schedule; every exception is a failure."""
    began = time.process_time()
    scenario = Scenario(schedule)
    if listener is not None:
        scenario.world.listeners.append(listener)
    result = Result(schedule.seed, None)
    try:
        result.outcome = scenario.run()
    except Failure as failure:
        result.failure, result.invariant = str(failure), failure.invariant
    except Exception as error:
        result.failure, result.invariant = f"{type(error).__name__}: {error}", type(error).__name__
        if listener is not None:
            raise
    finally:
        result.recent = {host: list(lines) for host, lines in scenario.world.recent.items()}
        scenario.world.close()
    result.seconds = time.process_time() - began
    return result


def _try_number(seed: int) -> Result:
    return try_seed(draw(seed))


def try_seeds(seeds: range, jobs: int) -> Iterator[Result]:
    """The results of many seeds, in order."""
    if jobs == 1:
        yield from map(_try_number, seeds)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), max_tasks_per_child=200) as pool:
        yield from pool.map(_try_number, seeds, chunksize=5)


@dataclass
class Tally:
    """The results of many seeds together."""

    seeds: int = 0
    virtual_s: float = 0.0
    seconds: float = 0.0
    operations: int = 0
    coverage: Counter[str] = field(default_factory=Counter[str])
    failed: dict[int, Result] = field(default_factory=dict[int, Result])

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.seconds += result.seconds
        if result.outcome is None:
            self.failed[result.seed] = result
        else:
            self.virtual_s += result.outcome.virtual_s
            self.operations += result.outcome.operations
            self.coverage += result.outcome.coverage

    def report(self) -> list[str]:
        """Lines for a person."""
        speed = self.virtual_s / self.seconds if self.seconds else 0.0
        return [
            *(f"  {count:9} {what}" for what, count in sorted(self.coverage.items())),
            f"{self.seeds} seeds, {self.virtual_s / 3600:.1f} simulated hours, {self.operations} operations,"
            f" {self.seconds:.0f} s of processor time: {speed:.0f} simulated seconds a second;"
            f" {len(self.failed)} failed",
        ]


def report_failure(result: Result, *, shrunk: bool) -> list[str]:
    """Lines about a failure: the invariant, the last events of each host, the schedule."""
    schedule = draw(result.seed)
    if shrunk:
        schedule, result = shrink(schedule, result, try_seed)
    lines = [f"FAILED seed {result.seed}: {result.failure}"]
    for host, events in sorted(result.recent.items()):
        lines += [f"-- the last events of {host}", *events[-LAST_EVENTS:]]
    lines += ["-- the schedule, shrunk" if shrunk else "-- the schedule", *schedule.describe()]
    return [*lines, f"replay with: make sim SEED={result.seed}"]


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate whole clusters under faults.")
    parser.add_argument("--seeds", type=int, default=300, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--trace", action="store_true", help="print every event of the seed")
    parser.add_argument("--no-shrink", action="store_true", help="do not look for a smaller schedule")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many failures")
    options = parser.parse_args()
    if options.seed is not None:
        result = try_seed(draw(options.seed), print if options.trace else None)
        if result.outcome is None:
            print("\n".join(report_failure(result, shrunk=not options.no_shrink)))
            return 1
        print(f"seed {options.seed}: no failure, {result.seconds:.2f} s, trace {result.outcome.trace_hash}")
        return 0
    tally = Tally()
    for result in try_seeds(range(options.first, options.first + options.seeds), options.jobs):
        tally.add(result)
        if result.outcome is None:
            print(f"FAILED seed {result.seed}: {result.failure[:600]}", flush=True)
            if len(tally.failed) >= options.failures:
                break
    for seed in sorted(tally.failed)[:1]:
        print("\n".join(report_failure(tally.failed[seed], shrunk=not options.no_shrink)))
    print("\n".join(tally.report()))
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
