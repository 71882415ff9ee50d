"""`examples/delivery.py` shows what came twice and what was lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "delivery.py"
ALL = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
SIX = "[0, 1, 2, 3, 4, 5]"


@pytest.mark.slow
def test_crashes_double_or_lose_records_by_the_order_of_commits(bootstrap: str) -> None:
    command = [sys.executable, EXAMPLE, bootstrap]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    least, most, independent = finished.stdout.strip().split("\n\n")
    assert f"first processed   {SIX}, and died" in least
    assert f"second processed  {ALL}" in least
    assert f"twice: {SIX}; lost: none" in least
    assert "second processed  []" in most
    assert "twice: none; lost: [6, 7, 8, 9]" in most
    assert f"statistics processed  {ALL}" in independent
    assert f"twice: {SIX}; lost: none" in independent
