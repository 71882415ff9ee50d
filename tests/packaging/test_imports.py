"""`import minikafka` takes the installed code wherever Python is started, also beside and inside a checkout."""

from __future__ import annotations

import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.installs import SUBPACKAGES, Environment, build, copied

import minikafka

pytestmark = pytest.mark.slow
LOCATE = """
import importlib.util, json, sys
import minikafka
lazy = "minikafka.client" not in sys.modules
from minikafka import Producer
found = {name: importlib.util.find_spec(name) for name in json.loads(sys.argv[1])}
print(json.dumps({
    "files": {name: spec and spec.origin for name, spec in found.items()},
    "lazy": lazy,
    "producer": Producer.__module__,
    "version": minikafka.__version__,
}))
"""


@pytest.fixture(params=["beside the checkout", "inside the checkout", "elsewhere"])
def cwd(request: pytest.FixtureRequest, checkout: Path, tmp_path: Path) -> Path:
    """A folder in which Python is started."""
    folders = {"beside the checkout": checkout.parent, "inside the checkout": checkout, "elsewhere": tmp_path}
    return folders[request.param]


def modules(checkout: Path) -> list[str]:
    """Every module by its import name."""
    files = [file.relative_to(checkout) for name in SUBPACKAGES for file in (checkout / name).rglob("*.py")]
    names = ["minikafka." + ".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files]
    return ["minikafka", "pyspark_minikafka", *sorted(names)]


def check(python: Environment, cwd: Path, checkout: Path, root: Path, path: Path | None = None) -> None:
    """Every module is found below `root`, and the client is imported on first use only."""
    said = json.loads(python.run(["-c", LOCATE, json.dumps(modules(checkout))], cwd, path))
    wrong = {name: file for name, file in said["files"].items() if not file or not Path(file).is_relative_to(root)}
    assert wrong == {}
    assert said["lazy"]
    assert said["producer"] == "minikafka.client.producer.producer"
    assert said["version"] == minikafka.__version__


def test_an_installed_wheel_is_what_is_imported(with_wheel: Environment, checkout: Path, cwd: Path) -> None:
    check(with_wheel, cwd, checkout, with_wheel.site)


def test_an_editable_install_imports_the_checkout(editable: Environment, checkout: Path, cwd: Path) -> None:
    check(editable, cwd, checkout, checkout)


def test_a_wheel_on_the_path_is_imported_from(without: Environment, checkout: Path, wheel: Path, cwd: Path) -> None:
    check(without, cwd, checkout, wheel, path=wheel)


def test_an_installed_tree_is_imported_from_a_zip(
    with_wheel: Environment, without: Environment, checkout: Path, cwd: Path, tmp_path: Path
) -> None:
    for name in ("minikafka", "pyspark_minikafka"):
        shutil.copytree(with_wheel.site / name, tmp_path / "tree" / name)
    archive = Path(shutil.make_archive(str(tmp_path / "tree"), "zip", tmp_path / "tree"))
    check(without, cwd, checkout, archive, path=archive)
    assert minikafka.__version__ in without.run(["-m", "minikafka.cli.main", "--version"], cwd, archive)


@pytest.mark.parametrize("kind", ["with_wheel", "editable"])
def test_the_command_runs(kind: str, request: pytest.FixtureRequest, cwd: Path) -> None:
    python: Environment = request.getfixturevalue(kind)
    script = python.python.with_name("minikafka")
    assert minikafka.__version__ in python.run([str(script), "--version"], cwd)


@pytest.mark.parametrize("kind", ["with_wheel", "editable"])
def test_spark_finds_the_data_source_by_the_name_of_its_module(
    kind: str, request: pytest.FixtureRequest, cwd: Path
) -> None:
    search = "import pkgutil; print([m.name for m in pkgutil.iter_modules() if m.name.startswith('pyspark_')])"
    python: Environment = request.getfixturevalue(kind)
    assert python.run(["-c", search], cwd).strip() == "['pyspark_minikafka']"


def test_the_wheel_has_every_source_file(wheel: Path, checkout: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if name.endswith((".py", ".typed"))}
    files = {file.relative_to(checkout) for name in SUBPACKAGES for file in (checkout / name).rglob("*.py")}
    expected = {f"minikafka/{file.as_posix()}" for file in files}
    assert shipped == {*expected, "minikafka/__init__.py", "minikafka/py.typed", "pyspark_minikafka/__init__.py"}


def test_the_source_distribution_has_what_a_wheel_is_built_from(distributions: Path, checkout: Path) -> None:
    (file,) = distributions.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    sources = {path.relative_to(checkout).as_posix() for path in checkout.rglob("*.py") if "build" not in path.parts}
    assert sources | {"package/minikafka/py.typed", "pyproject.toml", "README.md", "LICENSE"} <= held


def test_a_wheel_has_no_modules_of_an_earlier_build(tmp_path: Path) -> None:
    checkout = copied(tmp_path / "minikafka")
    module = checkout / "storage" / "removed_since.py"
    module.write_text('"""A module."""\n')
    build(checkout, tmp_path / "first", "--wheel")
    module.unlink()
    build(checkout, tmp_path / "second", "--wheel")
    (first,), (second,) = ((tmp_path / name).glob("*.whl") for name in ("first", "second"))
    assert "minikafka/storage/removed_since.py" in zipfile.ZipFile(first).namelist()
    assert "minikafka/storage/removed_since.py" not in zipfile.ZipFile(second).namelist()
