"""Ten thousand quorums in trouble, each from a seed. `python -m simulation.raft --seeds …` runs more of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulation.raft import report, run_parallel, story_of, trace_hash

TESTS = Path(__file__).parents[2]
PORTIONS = 1 if os.environ.get("MUTATION_RUN") else 10
SEEDS_PER_PORTION = 1000
SEEN = (
    "candidate to leader", "candidate to prospective", "crash that loses unsynced records", "follower to prospective",
    "leader to resigned", "leader to unattached", "node that truncated its log", "resigned to prospective", "snapshot",
    "snapshot installed",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("portion", range(PORTIONS))
def test_whatever_goes_wrong_nothing_committed_is_lost_and_the_quorum_recovers(portion: int) -> None:
    tally = run_parallel(portion * SEEDS_PER_PORTION, SEEDS_PER_PORTION, jobs=2)
    for seed in sorted(tally.failed)[:1]:
        lines, _ = story_of(seed)
        print(f"the end of the story of seed {seed}:", *lines[-80:], sep="\n")
    assert not tally.failed, report(tally)
    assert [what for what in SEEN if not tally.sometimes.get(what)] == [], "the worlds are too peaceful"


def test_a_seed_is_the_same_story_in_every_process() -> None:
    script = "from simulation.raft import trace_hash; print(trace_hash(7), trace_hash(12))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "4711"}
    other = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert other.stdout.split() == [trace_hash(7), trace_hash(12)]
