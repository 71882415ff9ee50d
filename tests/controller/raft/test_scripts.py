"""Golden scripts of one node; `simulation/raft_script.py` describes their language. File names are sentences."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulation.raft_script import play

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_script_matches_the_behaviour(path: Path) -> None:
    text = path.read_text()
    assert play(text).splitlines() == text.splitlines()


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 25
