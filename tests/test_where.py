"""The quiz of `docs/where.md`: every answer is a definition in a file of this repository."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"\| (?P<number>\d+) \| (?P<change>.+) \| `(?P<file>[^`]+)` \| `(?P<name>[\w.]+)` \|")
LINES = [line for line in (ROOT / "docs/where.md").read_text().splitlines() if re.match(r"\| *\d", line)]
ROWS = [found.groupdict() for line in LINES if (found := ROW.fullmatch(line))]


def definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """The names of functions, classes and constants; members of a class as `Class.member`."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield prefix + node.name
            case ast.ClassDef():
                yield prefix + node.name
                yield from definitions(node.body, f"{prefix}{node.name}.")
            case ast.Assign(targets=targets):
                yield from (
                    prefix + name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
                )
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name


def test_every_row_has_a_number_a_change_a_file_and_a_definition() -> None:
    assert len(ROWS) == len(LINES) > 0
    assert [int(row["number"]) for row in ROWS] == list(range(1, len(ROWS) + 1))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_the_definition_is_in_the_file(row: dict[str, str]) -> None:
    assert row["name"] in set(definitions(ast.parse((ROOT / row["file"]).read_text()).body))


@pytest.mark.parametrize("what", [("change",), ("file", "name")], ids=" ".join)
def test_no_row_repeats_another(what: tuple[str, ...]) -> None:
    described = [tuple(" ".join(row[one].lower().split()) for one in what) for row in ROWS]
    assert sorted(described) == sorted(set(described))


def test_what_counts_as_a_definition() -> None:
    source = "import a\nA: int = 1\nB, C = 2, 3\nd = a.e\nclass F:\n    g: int\n    async def h(self):\n        i = 1\n"
    assert list(definitions(ast.parse(source).body)) == ["A", "B", "C", "d", "F", "F.g", "F.h"]
