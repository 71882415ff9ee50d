"""The tests that belong to a file, for `make test-for FILE=client/consumer/failures.py`.

    PYTHONPATH=tests python -m support.tests_for client/consumer/failures.py        prints them, for pytest

They are those that import the module, those that must catch the bugs planted in it, and the one that has its name. For
a file that has none of these they are the tests of its folder or of the nearest one above.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

from mutations.run import LISTS, ROOMS, mutations_of

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("name one file, as in `make test-for FILE=client/consumer/failures.py`")
    try:
        print(*belonging_to(sys.argv[1]))
    except ValueError as error:
        sys.exit(str(error))


def belonging_to(name: str) -> list[str]:
    """Paths from the repository's root, in order. Raises ValueError for a file that is neither code nor test."""
    path = (ROOT / name).resolve()
    if not path.is_file() or not path.is_relative_to(ROOT):
        raise ValueError(f"there is no file {name} in {ROOT}")
    file = path.relative_to(ROOT)
    if file.parts[0] == "tests" and file.name.startswith("test_"):
        return [file.as_posix()]
    if file.parts[0] not in ROOMS or file.suffix != ".py":
        raise ValueError(f"{name} is in none of the packages {', '.join(ROOMS)}: `make test` runs what belongs to it")
    found = {one for one, modules in imports_of_tests().items() if module(file) in modules}
    found |= {test.partition("::")[0] for one in planted() if one[0] == file.as_posix() for test in one[1]}
    namesake = TESTS / file.parent / f"test_{file.stem}.py"
    if namesake.exists():
        found.add(namesake.relative_to(ROOT).as_posix())
    return sorted(found) or [folder_of(file)]


def module(file: Path) -> str:
    """The name under which a file of a package is imported."""
    parts = file.with_suffix("").parts
    return ".".join(("minikafka", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def folder_of(file: Path) -> str:
    """The nearest folder of tests: that of the file's folder, or of one above."""
    nearest = next(one for one in file.parents if (TESTS / one).is_dir())
    return (Path("tests") / nearest).as_posix()


@cache
def planted() -> list[tuple[str, tuple[str, ...]]]:
    """The file and the tests of each planted bug."""
    return [(one.file, one.tests) for name in LISTS for one in mutations_of(name)]


@cache
def imports_of_tests() -> dict[str, set[str]]:
    """By test file, the modules that it imports; `from a.b import c` may mean a module `a.b.c`."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        names = found.setdefault(path.relative_to(ROOT).as_posix(), set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return found


if __name__ == "__main__":
    main()
