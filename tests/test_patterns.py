"""Patterns of others are RE2's: Python's `re` backtracks, and a pattern of ten letters keeps a node busy for ever."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = [path for name in ("broker", "controller") for path in (ROOT / name).rglob("*.py")]
FUNCTIONS = ("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")


def others(source: str) -> Iterator[int]:
    """The lines where `re` gets a pattern that is no constant, or by which it could get one unseen."""
    for node in ast.walk(ast.parse(source)):
        renamed = isinstance(node, ast.Import) and any(one.name == "re" and one.asname for one in node.names)
        if renamed or (isinstance(node, ast.ImportFrom) and node.module in ("re", "fnmatch", "glob")):
            yield node.lineno
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        of_re = ast.unparse(node.func.value) == "re" and node.func.attr in FUNCTIONS
        if of_re and not (node.args and is_constant(node.args[0])):
            yield node.lineno


def is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return is_constant(node.left) and is_constant(node.right)
    return isinstance(node, ast.Constant)


def test_the_patterns_of_re_are_constants() -> None:
    found = {str(path.relative_to(ROOT)): [*others(path.read_text())] for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    ["re.compile(text)", "re.fullmatch(f'{a}', b)", "from re import compile", "import re as r", "re.sub(x, '', y)"],
)
def test_the_rule_finds(source: str) -> None:
    assert [*others(source)] == [1]
