"""Simulates whole clusters under faults: the command behind `make sim`.

    PYTHONPATH=tests python -m simulation.seeds --seeds 1000        # seeds 0 to 999; --first 5000, --jobs 2
    PYTHONPATH=tests python -m simulation.seeds --seeds 100 --voters # the first 100 whose voters come and go
    PYTHONPATH=tests python -m simulation.seeds --seed 123          # one seed; --trace prints every event
    PYTHONPATH=tests python -m simulation.seeds --file tests/simulation/failed/….toml
    PYTHONPATH=tests python -m simulation.seeds --seeds 50 --branches     # what of the product's code they reach
    PYTHONPATH=tests python -m simulation.seeds --seeds 50 --steps        # fails where a step of a node is too long

A failing seed prints its number, the broken invariant, the last events of each host, and a schedule that was shrunk to
what the failure needs. Many seeds also print which faults never had an effect, and which actions of programs never
succeeded; of `SEEDS_FOR_ALL_FAULTS` seeds or more each fault must have had one, at least in seeds of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from itertools import count, islice
from pathlib import Path

from minikafka.broker.node.step_watch import BUDGET_S
from simulation.faults.table import FAULTS, VOTER_FAULTS
from simulation.report import report_failure
from simulation.schedule import LAYOUTS, Schedule, draw
from simulation.steps import described, run_with_budget
from simulation.stored import from_options, from_toml
from simulation.tally import Tally
from simulation.trial import try_schedule, try_seeds
from simulation.world.quorums import FIXED

ALL_KINDS = [*FAULTS, *VOTER_FAULTS]
SEEDS_FOR_ALL_FAULTS, SEEDS_ALONE_MAX = 300, 20
FAILURES_REPORTED = 3
BRIEF_MAX = 600


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 1 if a seed failed, or a fault never had an effect."""
    options = _parser().parse_args(arguments)
    if options.file is not None:
        return run_one(from_toml(options.file.read_text()), options)
    if options.seed is not None:
        return run_one(from_options(options), options)
    if options.branches:
        from simulation.branches import measure  # only this needs coverage.py

        print("\n".join(measure(range(options.first, options.first + options.seeds))))
        return 0
    if options.steps:
        return run_watched(range(options.first, options.first + options.seeds))
    return run_many(options)


def run_watched(seeds: Iterable[int]) -> int:
    """Run seeds in this process; print the steps of nodes that use more of the processor than the budget."""
    above = failed = 0
    for seed in seeds:
        result, found = run_with_budget(draw(seed))
        above += len(found)
        for place in sorted(found):
            print(f"seed {seed}: {described(place, found[place])}", flush=True)
        if result.outcome is None:
            failed += 1
            print(f"FAILED seed {seed}: {result.evidence[:BRIEF_MAX]}", flush=True)
    print(f"{above} steps of nodes above {BUDGET_S * 1000:g} ms, {failed} seeds failed")
    return 1 if above or failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Simulate whole clusters under faults.")
    parser.add_argument("--seeds", type=int, default=SEEDS_FOR_ALL_FAULTS, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--failures", type=int, default=10, help="stop after so many failures")
    parser.add_argument("--no-shrink", action="store_true", help="do not look for a smaller schedule")
    parser.add_argument("--faults", metavar="KIND,…", help="instead of those that the seeds draw")
    parser.add_argument("--voters", action="store_true", help="only seeds whose voters come and go")
    parser.add_argument("--branches", action="store_true", help="measure what of the code the seeds reach")
    parser.add_argument("--steps", action="store_true", help="a step of a node above the budget fails; in this process")
    one = parser.add_argument_group("one schedule")
    one.add_argument("--seed", type=int, help="run this seed")
    one.add_argument("--file", type=Path, help="run the schedule in this file")
    one.add_argument("--trace", action="store_true", help="print every event")
    one.add_argument("--only-faults", metavar="NUMBERS", help="without the seed's other faults")
    one.add_argument("--only-programs", metavar="NUMBERS", help="without the seed's other programs")
    one.add_argument("--groups", metavar="NAME=MEMBERS,…", help="these groups instead of the seed's")
    one.add_argument("--lasts", type=float, metavar="SECONDS", help="how long there are faults")
    one.add_argument("--layout", choices=LAYOUTS, help="the nodes of the cluster")
    one.add_argument("--defaults", metavar="SETTINGS", help="these settings have their defaults")
    return parser


def run_one(schedule: Schedule, options: argparse.Namespace) -> int:
    """Run a schedule and report it."""
    result = try_schedule(schedule, print if options.trace else None)
    if result.outcome is None:
        print("\n".join(report_failure(result, shrunk=not options.no_shrink)))
        return 1
    print(f"seed {result.seed}: no failure, {result.seconds:.2f} s, trace {result.outcome.trace_hash}")
    return 0


def run_many(options: argparse.Namespace) -> int:
    """Run seeds and report those that fail, and what never happened in any."""
    tally = Tally()
    kinds = options.faults.split(",") if options.faults else []
    for result in try_seeds(_chosen(options), options.jobs, kinds):
        tally.add(result)
        if result.outcome is None:
            print(f"FAILED seed {result.seed}: {result.evidence[:BRIEF_MAX]}", flush=True)
            if len(tally.failed) >= options.failures:
                break
    for failure in tally.first_of_each()[:FAILURES_REPORTED]:
        print("\n".join(["", *report_failure(failure, shrunk=not options.no_shrink)]), flush=True)
    print("\n".join(tally.report()))
    if tally.seeds >= SEEDS_FOR_ALL_FAULTS:
        for kind in tally.faults_without_effect(kinds or ALL_KINDS):
            try_alone(kind, tally, options.first)
    idle = tally.faults_without_effect(kinds or ALL_KINDS)
    for action in tally.actions_without_success():
        print(f"never succeeded: {action}")
    for kind in idle:
        print(f"fault without an effect: {kind}")
    return 1 if tally.failed or (idle and tally.seeds >= SEEDS_FOR_ALL_FAULTS) else 0


def _chosen(options: argparse.Namespace) -> Sequence[int]:
    """The seeds to run: as many as asked for, from the first on."""
    if not options.voters:
        return range(options.first, options.first + options.seeds)
    return list(islice((seed for seed in count(options.first) if draw(seed).quorum != FIXED), options.seeds))


def try_alone(kind: str, tally: Tally, first: int) -> None:
    """Run seeds that have no other faults until this one has an effect: a rare one may have had no chance."""
    for result in try_seeds(range(first, first + SEEDS_ALONE_MAX), 1, [kind]):
        tally.add(result)
        if result.outcome is None:
            print(f"FAILED seed {result.seed} with --faults '{kind}': {result.evidence[:BRIEF_MAX]}", flush=True)
        if not tally.faults_without_effect([kind]):
            return


if __name__ == "__main__":
    sys.exit(main())
