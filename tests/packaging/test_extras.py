"""Installed bare, and with each extra: programs run with what the extra brings, and name it where it is missing.

Each environment has the wheel, and of the packages that the tests run with only those that the wheel's metadata ask
for, so that one which is used and not declared is noticed. `MINIKAFKA_INDEX=1` installs from the package index instead.
"""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from email.parser import Parser
from pathlib import Path

import pytest
from support.installs import Environment, empty_environment
from support.node import NodeProcess

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
packaging = pytest.importorskip("packaging.requirements")
FROM_INDEX = bool(os.environ.get("MINIKAFKA_INDEX"))
BARE = """
import sys
from minikafka.client.blocking import Admin, Consumer, Producer
bootstrap, topic = sys.argv[1:]
with Admin(bootstrap) as admin:
    admin.create_topic(topic, partitions=1)
with Producer(bootstrap, compression_type="zstd") as producer:
    producer.send(topic, b"EWR-IAH")
with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", stop_at="end") as consumer:
    print([record.value for record in consumer])
"""
FAST = f"{BARE}import minikafka.protocol.records.numpy_codec, zlib_ng\n"
ARROW = f"""{FAST}
with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", stop_at="end") as consumer:
    print(sum(batch.num_rows for batch in consumer.arrow_batches()))
"""
SPARK = f"""{ARROW}
from minikafka.spark_connector import register
import pyspark_minikafka
print(pyspark_minikafka.DefaultSource.name())
"""
PROGRAMS = {"": BARE, "fast": FAST, "arrow": ARROW, "spark": SPARK}
"""By extra; those of users: `demo`, `dev` and the like belong to the repository."""

READS_ARROW = """
import sys
from minikafka.client.blocking import Consumer
with Consumer(bootstrap_servers=sys.argv[1]) as consumer:
    next(iter(consumer.arrow_batches()))
"""
Made = Callable[[str], Environment]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Makes the environment with the wheel and an extra, once."""
    made: dict[str, Environment] = {}

    def make(extra: str) -> Environment:
        if extra not in made:
            folder = tmp_path_factory.mktemp(extra or "bare") / "venv"
            made[extra] = _from_index(folder, wheel, extra) if FROM_INDEX else _declared(folder, wheel, extra)
        return made[extra]

    return make


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with NodeProcess(tmp_path_factory.mktemp("node") / "data") as node:
        yield node.bootstrap


def _from_index(folder: Path, wheel: Path, extra: str) -> Environment:
    environment = empty_environment(folder)
    pip = [sys.executable, "-m", "pip", "--python", str(environment.python), "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", f"{wheel}[{extra}]" if extra else str(wheel)], check=True)
    return environment


def _declared(folder: Path, wheel: Path, extra: str) -> Environment:
    """An environment with links to the packages that the wheel asks for, and to those that these ask for."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    environment = empty_environment(folder)
    for distribution in _closure(metadata.get_all("Requires-Dist") or [], {extra}):
        for part in {Path(str(file)).parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            link = environment.site / part
            if not link.exists():
                link.symlink_to(Path(str(distribution.locate_file(part))))
    return environment.installed(str(wheel))


def _closure(required: list[str], extras: set[str]) -> list[importlib.metadata.Distribution]:
    found: dict[tuple[str, str], importlib.metadata.Distribution] = {}
    left = [(text, extra) for text in required for extra in extras]
    while left:
        text, extra = left.pop()
        one = packaging.Requirement(text)
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        own = re.sub(r"[-_.]+", "-", one.name) == "minikafka"
        for inner in one.extras or {""}:
            if own:
                left += [(text, inner) for text in required if ("own", inner) not in found]
                continue
            key = (one.name, inner)
            if key not in found:
                found[key] = importlib.metadata.distribution(one.name)
                left += [(text, inner) for text in found[key].requires or ()]
    return list(found.values())


@pytest.mark.parametrize("extra", PROGRAMS)
def test_programs_run_with_what_is_installed(extra: str, installed: Made, bootstrap: str, tmp_path: Path) -> None:
    environment = installed(extra)
    script = str(environment.python.with_name("minikafka"))
    assert environment.run([script, "--version"], tmp_path).startswith("minikafka, version ")
    assert (environment.site / "minikafka" / "py.typed").is_file()
    expected = ["[b'EWR-IAH']", *(["1"] if extra in ("arrow", "spark") else []), *(["minikafka"] * (extra == "spark"))]
    printed = environment.run(["-c", PROGRAMS[extra], bootstrap, f"flights-{extra}"], tmp_path)
    assert printed.splitlines() == expected


@pytest.mark.parametrize(
    ("has", "program", "named"),
    [
        ("", READS_ARROW, "minikafka[arrow]"),
        ("fast", READS_ARROW, "minikafka[arrow]"),
        ("arrow", "from minikafka.spark_connector import register", "minikafka[spark]"),
        ("arrow", "from minikafka.spark_connector import lag; lag({})", ""),
        ("", "import pyspark_minikafka", "minikafka[spark]"),
    ],
    ids=["arrow, bare", "arrow, without pyarrow", "register", "lag needs no extra", "the module that Spark finds"],
)
def test_a_missing_extra_is_named(
    has: str, program: str, named: str, installed: Made, bootstrap: str, tmp_path: Path
) -> None:
    environment = installed(has)
    command = [str(environment.python), "-c", program, bootstrap]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(command, cwd=tmp_path, env=inherited, capture_output=True, text=True)
    last = ran.stderr.strip().splitlines()[-1] if ran.stderr else ""
    assert named in last
    assert last.startswith("ModuleNotFoundError: ") is bool(named)
    assert "No module named" not in last


OF_TESTS = ("bench", "tests")
"""The folders whose programs run with the extra `dev`."""


def _imported(folder: Path) -> dict[str, Path]:
    """The first name of each module that the files of a folder import, with one of these files."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            found |= {name.partition(".")[0]: path for name in names}
    return found


@pytest.mark.parametrize("folder", OF_TESTS)
def test_what_tests_import_comes_with_their_extra(folder: str) -> None:
    """A package that another extra brings is missed only where that extra is not installed, as in a new clone."""
    distributions = importlib.metadata.packages_distributions()
    declared = {one.name for one in _closure(importlib.metadata.requires("minikafka") or [], {"dev"})}
    installed = {
        name: path
        for name, path in _imported(ROOT / folder).items()
        if name in distributions and name != "minikafka" and not declared.intersection(distributions[name])
    }
    assert not installed, f"not in the extra `dev` of pyproject.toml: {installed}"
