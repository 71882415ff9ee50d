"""Simulated quorums with faults, one per seed: two thousand, and eight thousand more in `make sim`.

`make sim-raft SEEDS=…` runs any number.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulation.raft import report, run_parallel, trace_hash, trace_of

TESTS = Path(__file__).parents[2]
PORTIONS = 1 if os.environ.get("MUTATION_RUN") else 10
PORTIONS_USUAL = 2
SEEDS_PER_PORTION = 1000
SEEN = (
    "add voter", "candidate to leader", "candidate to prospective", "crash that loses unsynced records",
    "disk replaced", "follower to prospective", "leader to resigned", "leader to unattached",
    "node that truncated its log", "remove voter", "resigned to prospective", "snapshot", "snapshot installed",
    "update voter", "upgrade", "voters changed",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "portion",
    [pytest.param(one, marks=pytest.mark.sim if one >= PORTIONS_USUAL else ()) for one in range(PORTIONS)],
)
def test_no_fault_loses_committed_records_and_the_quorum_recovers(portion: int) -> None:
    tally = run_parallel(portion * SEEDS_PER_PORTION, SEEDS_PER_PORTION, jobs=2)
    for seed in sorted(tally.failed)[:1]:
        lines, _ = trace_of(seed)
        print(f"the end of the trace of seed {seed}:", *lines[-80:], sep="\n")
    assert not tally.failed, report(tally)
    assert [what for what in SEEN if not tally.sometimes.get(what)] == [], "the simulation covers too little"


@pytest.mark.slow
def test_a_seed_is_deterministic_across_processes() -> None:
    script = "from simulation.raft import trace_hash; print(trace_hash(7), trace_hash(12))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "4711"}
    other = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert other.stdout.split() == [trace_hash(7), trace_hash(12)]
