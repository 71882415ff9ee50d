"""Whole clusters in simulation: the first seeds pass, and a seed is the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from simulation.report import report_failure
from simulation.schedule import draw
from simulation.trial import try_schedule, try_seed

TESTS = Path(__file__).parents[1]
SEEDS = 2
"""`make sim` runs more."""
PRINTED = """
from dataclasses import replace
from simulation.schedule import draw
from simulation.trial import try_schedule
result = try_schedule(replace(draw(1), lasts_s=8.0))
print(result.invariant, len(result.recent), result.outcome)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_seed_passes(seed: int) -> None:
    result = try_seed(seed)
    assert result.outcome is not None, "\n".join(report_failure(result, shrunk=False))


@pytest.mark.slow
def test_voters_that_are_never_settled_fail_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was asked for ever whether they are, in no time (seed 2735)."""
    monkeypatch.setattr("simulation.scenario.settle", lambda chaos: SimpleNamespace(ended=False))
    found = (draw(seed, ["add a voter"]) for seed in range(100))
    schedule = next(one for one in found if one.quorum != "fixed")
    result = try_schedule(replace(schedule, lasts_s=2.0))
    assert result.invariant == "the voters cannot be changed"


@pytest.mark.slow
def test_a_seed_has_the_same_trace_in_every_process() -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PRINTED],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("0", "1", "4711")
    ]
    printed = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(printed) == 1
    assert "trace_hash=" in printed.pop()
