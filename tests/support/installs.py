"""Distributions built from a copy of the checkout, and virtual environments to install them in."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUBPACKAGES = ("broker", "cli", "client", "controller", "protocol", "spark_connector", "storage", "testing")
SOURCES = (*SUBPACKAGES, "package", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
SETUPTOOLS_MIN = 77


@dataclass(frozen=True)
class Environment:
    """A virtual environment: its interpreter and its site-packages."""

    python: Path
    site: Path

    def run(self, words: Sequence[str], cwd: Path, path: Path | None = None) -> str:
        """The output of the environment's Python in the folder `cwd`, with `path` as PYTHONPATH."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        given = {} if path is None else {"PYTHONPATH": str(path)}
        command = [str(self.python), *words]
        ran = subprocess.run(command, cwd=cwd, env={**inherited, **given}, capture_output=True, text=True)
        assert ran.returncode == 0, f"{words} in {cwd}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def installed(self, *words: str) -> Environment:
        """This environment after `pip install`.

        --ignore-installed: pip would remove the minikafka that lies beside the dependencies.
        """
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--no-deps", "--no-index", "--ignore-installed", *words], check=True)
        return self


def empty_environment(folder: Path) -> Environment:
    """A virtual environment without any package."""
    venv.create(folder, symlinks=True, with_pip=False)
    paths = sysconfig.get_paths("venv", {"base": str(folder), "platbase": str(folder)})
    return Environment(Path(paths["scripts"]) / "python", Path(paths["purelib"]))


def environment(folder: Path) -> Environment:
    """A virtual environment with the dependencies that the tests run with, and without minikafka."""
    made = empty_environment(folder)
    made.site.joinpath("dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return made


def copied(folder: Path) -> Path:
    """The checkout without what is not versioned, as `folder`."""
    folder.mkdir(parents=True)
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*")
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    return folder


def build(checkout: Path, target: Path, *options: str) -> None:
    """Distributions of a checkout. Skips where there is nothing to build them with."""
    if importlib.util.find_spec("build") is None:
        pytest.skip("the package `build` is missing: pip install 'minikafka[dev]'")
    if int(importlib.metadata.version("setuptools").partition(".")[0]) < SETUPTOOLS_MIN:
        pytest.skip(f"setuptools is older than {SETUPTOOLS_MIN}: pip install 'minikafka[dev]'")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), *options, str(checkout)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
