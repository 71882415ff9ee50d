"""`.ci/containers` tolerates a missing engine and a time-out, and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "containers"


def outcome(folder: Path, *, image: int, engine: int = 0, chaos: int = 0) -> tuple[int, str]:
    """The exit code and the output of the script, where `make` and `docker` end with these codes."""
    programs = {
        "make": f'echo "$1 was made"; case "$1" in docker-image) exit {image};; *) exit {chaos};; esac',
        "docker": f"exit {engine}",
    }
    for name, line in programs.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run([str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("code", [124, 137])
def test_a_machine_that_is_too_slow_is_no_failure(tmp_path: Path, code: int) -> None:
    assert outcome(tmp_path, image=code) == (
        0, "No containers under faults: no image within three minutes: docker-image was made\n",
    )  # fmt: skip
    found, output = outcome(tmp_path, image=0, chaos=code)
    assert found == 0
    assert "not finished within three minutes" in output


def test_a_machine_without_an_engine_is_no_failure(tmp_path: Path) -> None:
    assert outcome(tmp_path, image=2, engine=1) == (
        0, "No containers under faults: no engine: docker-image was made\n",
    )  # fmt: skip


def test_an_image_that_cannot_be_built_is_a_failure(tmp_path: Path) -> None:
    found, output = outcome(tmp_path, image=2)
    assert found == 2
    assert "The image cannot be built" in output


@pytest.mark.parametrize("code", [1, 2])
def test_whatever_fails_under_faults_is_a_failure(tmp_path: Path, code: int) -> None:
    assert outcome(tmp_path, image=0, chaos=code) == (code, "chaos-docker was made\n")


def test_a_round_that_passes(tmp_path: Path) -> None:
    assert outcome(tmp_path, image=0) == (0, "chaos-docker was made\n")
