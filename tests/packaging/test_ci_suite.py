"""`.ci/suite` runs up to three failed tests once more, and tolerates nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "suite"
AGAIN = "Once more, on their own: tests/a.py::test_b"
FLAKY = "Failed once, and passed on their own, a bug to mend: tests/a.py::test_b"


def outcome(folder: Path, last_line: str, *, make: int, again: int = 0, cached: bool = True) -> tuple[int, str]:
    """Exit code and output of the script, where `make test-all` prints a line, and both runs end with these codes."""
    (folder / ".ci").mkdir()
    shutil.copy(SCRIPT, folder / ".ci")
    cache = "mkdir -p .pytest_cache/v/cache; echo '{\"tests/a.py::test_b\": true}' >.pytest_cache/v/cache/lastfailed"
    programs = {
        "make": f"[ \"$*\" = test-all ] || exit 98\n{cache if cached else 'true'}\necho '{last_line}'\nexit {make}",
        ".venv/bin/python": f'case "$*" in *"pytest --last-failed"*) exit {again};; *) exit 99;; esac',
    }
    for name, lines in programs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        [str(folder / ".ci" / "suite"), "test-all"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_suite_that_passes_is_not_run_again(tmp_path: Path) -> None:
    assert outcome(tmp_path, "19 passed in 9.00s", make=0, cached=False) == (0, "19 passed in 9.00s\n")


@pytest.mark.parametrize("last_line", ["1 failed, 19 passed in 9.00s", "19 passed, 2 warnings, 1 error in 9.00s"])
def test_a_test_that_passes_on_its_own_is_named(tmp_path: Path, last_line: str) -> None:
    assert outcome(tmp_path, last_line, make=2) == (0, f"{last_line}\n{AGAIN}\n{FLAKY}\n")


def test_a_test_that_fails_again_is_a_failure(tmp_path: Path) -> None:
    code, output = outcome(tmp_path, "3 failed, 19 passed in 9.00s", make=2, again=1)
    assert code == 1
    assert FLAKY not in output


@pytest.mark.parametrize(
    "last_line",
    [
        "4 failed, 19 passed in 9.00s",
        "13 failed, 19 passed in 9.00s",
        "19 passed, 11 errors in 9.00s",
        "INTERNALERROR> 1 failed, 19 passed",
        "make: *** [Makefile:43: test] Error 2",
        "1 failed in 9.00s",
    ],
)
def test_whatever_else_fails_is_not_run_again(tmp_path: Path, last_line: str) -> None:
    assert outcome(tmp_path, last_line, make=2) == (2, f"{last_line}\n")


def test_a_suite_that_names_no_test_is_a_failure(tmp_path: Path) -> None:
    assert outcome(tmp_path, "1 failed, 19 passed in 9.00s", make=2, cached=False)[0] == 2
