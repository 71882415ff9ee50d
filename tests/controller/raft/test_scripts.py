"""Golden scripts: their file names are sentences, `simulation/raft_script.py` says how to read and write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulation.raft_script import play

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_it_goes_as_written(path: Path) -> None:
    text = path.read_text()
    assert play(text).splitlines() == text.splitlines()


def test_there_are_enough_of_them() -> None:
    assert len(SCRIPTS) >= 25
