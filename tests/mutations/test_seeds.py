"""What the output of a simulation with a planted bug says."""

from __future__ import annotations

import subprocess

import pytest

from mutations import SEEDS_MAX
from mutations.seeds import USAGE, judged, limit


def ended(code: int, out: str = "", err: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], code, out, err)


def test_the_first_seed_that_failed_is_named() -> None:
    out = "seeds 0 to 9\nFAILED seed 3: lost acknowledged write\nFAILED seed 7: duplicate\n"
    assert judged(ended(1, out)) == (3, "lost acknowledged write")


def test_seeds_without_a_failure_notice_nothing() -> None:
    assert judged(ended(0, "16 seeds, none failed\n")) == (-1, "no seed failed")


def test_a_simulation_that_breaks_down_has_noticed_nothing() -> None:
    seed, why = judged(ended(1, "", "Traceback …\nModuleNotFoundError: no trio\n"))
    assert seed == -1
    assert why.endswith("exit code 1: ModuleNotFoundError: no trio")


def test_a_simulation_that_says_nothing_has_noticed_nothing() -> None:
    assert judged(ended(-9))[0] == -1


def test_wrong_arguments_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="unrecognized"):
        judged(ended(USAGE, "", "error: unrecognized arguments: --x"))


def test_the_number_of_seeds_is_named() -> None:
    assert limit(None, 20) == limit("raft", 20) == "the first 20 seeds"
    assert limit("raft", None) == f"the first seeds: {SEEDS_MAX['raft']} of raft"
    assert all(f"{count} of {name}" in limit(None, None) for name, count in SEEDS_MAX.items())
