"""A wheel of this checkout, and environments in which it is installed in the ways that users have."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.installs import Environment, build, copied, environment


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout, in a folder of its own and named as `git clone` names it."""
    return copied(tmp_path_factory.mktemp("holder") / "minikafka")


@pytest.fixture(scope="session")
def distributions(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source distribution and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("distributions")
    build(checkout, folder)
    return folder


@pytest.fixture(scope="session")
def wheel(distributions: Path) -> Path:
    """The built wheel."""
    (file,) = distributions.glob("*.whl")
    return file


@pytest.fixture(scope="session")
def with_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment in which the wheel is installed."""
    return environment(tmp_path_factory.mktemp("wheel") / "venv").installed(str(wheel))


@pytest.fixture(scope="session")
def editable(checkout: Path, distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with an editable install of the checkout."""
    made = environment(tmp_path_factory.mktemp("editable") / "venv")
    return made.installed("--no-build-isolation", "--editable", str(checkout))


@pytest.fixture(scope="session")
def without(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment in which minikafka is not installed."""
    return environment(tmp_path_factory.mktemp("without") / "venv")
