"""Ctrl-C while the program imports, which a plugin of the import system sends when a module is asked for."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

INTERRUPTED = """
import os, runpy, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell lets its programs in the background ignore it.
interrupted = sys.argv.pop(1)

class Interrupts:
    def find_spec(self, name, *_):
        if name == interrupted:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
runpy.run_module("minikafka.cli", run_name="__main__")
"""


@pytest.mark.parametrize(
    "module", ["click", "minikafka.protocol.errors", "minikafka.cli.commands.topics", "minikafka.client", "trio"]
)
def test_ctrl_c_while_a_module_is_imported_is_no_trace(module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, module, "topics", "list", "--bootstrap-server", "127.0.0.1:1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "\n")


def test_the_installed_program_begins_there() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"minikafka": "minikafka.cli.__main__:main"}


def test_the_start_imports_nothing_that_takes_time() -> None:
    code = "import sys; before = {*sys.modules}; import minikafka.cli.__main__; print(*({*sys.modules} - before))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert {name for name in ran.stdout.split() if name.startswith("minikafka")} == {
        "minikafka",
        "minikafka.cli",
        "minikafka.cli.__main__",
    }
    assert "click" not in ran.stdout.split()
