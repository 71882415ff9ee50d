"""`minikafka completion`: real shells complete commands, options and contexts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_line import Minikafka

from minikafka.cli.arguments.contexts import Contexts, NamedCluster, write_contexts

BASH = """
eval "$SCRIPT"
COMP_WORDS=({words})
COMP_CWORD={last}
_minikafka_completion minikafka
echo "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With a command `minikafka` on the path, which is this checkout's."""
    program = tmp_path / "bin" / "minikafka"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m minikafka.cli.main "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["minikafka", "to"], "tokens top topics"),
        (["minikafka", "cluster", "st"], "status stop"),
        (["minikafka", "topics", "list", "--in"], "--internal"),
        (["minikafka", "topics", "list", "--context", "pro"], "prod prod-2"),
        (["minikafka", "context", "use", "t"], "test"),
    ],
)
def test_bash(minikafka: Minikafka, environment: dict[str, str], words: list[str], expected: str) -> None:
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    write_contexts(Contexts({name: NamedCluster("a:1") for name in ("prod", "prod-2", "test")}))
    ran = minikafka("completion", "bash")
    assert ran.code == 0, ran
    script = BASH.format(words=" ".join(words), last=len(words) - 1)
    command = ["bash", "--norc", "-c", script]
    environment = {**environment, "SCRIPT": ran.out}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert sorted(done.stdout.split()) == expected.split()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells(minikafka: Minikafka, shell: str, tmp_path: Path) -> None:
    ran = minikafka("completion", shell)
    assert (ran.code, f"_MINIKAFKA_COMPLETE={shell}_complete" in ran.out) == (0, True)
    if shutil.which(shell):
        (tmp_path / "script").write_text(ran.out)
        subprocess.run([shell, "-n", tmp_path / "script"], check=True, timeout=60)


def test_other_shells_are_refused(minikafka: Minikafka) -> None:
    assert minikafka("completion", "tcsh").code == 2
