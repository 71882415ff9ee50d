"""Plants each bug and runs seeds of a simulation: which seed is the first that notices it?

    PYTHONPATH=tests python -m mutations.seeds nodes                # one list; --seeds 20 a bug at most, --jobs 1
    PYTHONPATH=tests python -m mutations.seeds membership --simulation voters   # seeds whose voters come and go
    PYTHONPATH=tests python -m mutations.seeds "lost in a crash"    # those whose name contains the text
    PYTHONPATH=tests python -m mutations.seeds raft --simulation raft

`Mutation.seeds` states the result. `run.py` shows each bug with a test; this shows what random faults find alone.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mutations import SEEDS_MAX, Mutation
from mutations.run import ROOT, chosen, lay_out, run_to_its_end

TIMEOUT_S = 1200
COMMANDS = {
    "clusters": ("simulation.seeds", "--failures", "1", "--no-shrink"),
    "voters": ("simulation.seeds", "--failures", "1", "--no-shrink", "--voters"),
    "raft": ("simulation.raft", "--failures", "1"),
    "replicas": ("support.replica_simulation",),
}
USAGE = 2
"""argparse's exit code."""
FAILED = re.compile(r"^FAILED seed (\d+): (.*)", re.MULTILINE)


def first_failure(mutation: Mutation, simulation: str, seeds: int, jobs: int, timeout_s: float) -> tuple[int, str]:
    """(seed, what it found); (-1, a reason) if no seed failed."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as directory:
        lay_out(Path(directory), mutation)
        path = os.pathsep.join([directory, str(ROOT / "tests")])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", *COMMANDS[simulation], "--seeds", str(seeds), "--jobs", str(jobs)]
        try:
            result = run_to_its_end(command, environment, timeout_s)
        except subprocess.TimeoutExpired:
            return -1, f"no end within {timeout_s:g} s"
    return judged(result)


def judged(result: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    """(seed, what it found) from the output of a simulation; (-1, a reason) if no seed failed.

    A simulation that ends by itself with an error, without a seed that failed, has noticed nothing.
    """
    found = FAILED.search(result.stdout)
    if found is not None:
        return int(found[1]), found[2]
    if result.returncode == USAGE:
        raise RuntimeError(result.stderr)
    if result.returncode:
        last = (result.stdout + result.stderr).strip().splitlines()[-1:]
        return -1, f"no seed failed, but the simulation ended with exit code {result.returncode}: {' '.join(last)}"
    return -1, "no seed failed"


def limit(simulation: str | None, seeds: int | None) -> str:
    """How many seeds are tried, in words."""
    if seeds:
        return f"the first {seeds} seeds"
    some = SEEDS_MAX if simulation is None else {simulation: SEEDS_MAX[simulation]}
    return "the first seeds: " + ", ".join(f"{count} of {name}" for name, count in some.items())


def main() -> int:
    parser = argparse.ArgumentParser(description="Plant bugs; which seed of the simulation notices each?")
    parser.add_argument("which", nargs="*", help="lists, or parts of names; all by default")
    parser.add_argument("--simulation", choices=COMMANDS, help="by default that of `Mutation.simulation`")
    parser.add_argument("--seeds", type=int, help="seeds for each bug, at most; by default those of SEEDS_MAX")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds for each bug")
    options = parser.parse_args()
    survivors = 0
    which = chosen(options.which)
    for mutation in which:
        began = time.monotonic()
        simulation = options.simulation or mutation.simulation
        seeds = options.seeds or SEEDS_MAX[simulation]
        seed, what = first_failure(mutation, simulation, seeds, options.jobs, options.timeout)
        survivors += seed < 0
        seconds = time.monotonic() - began
        verdict = f"seed {seed:4}" if seed >= 0 else "SURVIVED "
        print(f"{verdict} {seconds:6.1f} s  {mutation.name}: {what[:150]}", flush=True)
    print(f"{len(which) - survivors} of {len(which)} bugs noticed by {limit(options.simulation, options.seeds)}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
