"""Schedules that failed once, in `failed/`: each passes now. `make sim` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulation.report import report_failure
from simulation.stored import FAILED, from_toml
from simulation.trial import try_schedule


@pytest.mark.sim
@pytest.mark.parametrize("path", sorted(FAILED.glob("*.toml")), ids=lambda path: path.stem)
def test_a_schedule_that_failed_once_passes(path: Path) -> None:
    result = try_schedule(from_toml(path.read_text()))
    assert result.outcome is not None, "\n".join(report_failure(result, shrunk=False))
