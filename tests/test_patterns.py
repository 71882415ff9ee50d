"""Patterns of others are RE2's: Python's `re` backtracks, and a pattern of ten letters keeps a node busy for ever.

Our own ones take time in proportion to the text, whatever it is: 32 KB of `[` kept a node busy for 18 seconds.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from minikafka.protocol.settings.value_types import split_list

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


@pytest.mark.slow
def test_the_patterns_of_re_are_constants() -> None:
    found = {str(path.relative_to(ROOT)): [*others(path.read_text())] for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    ["re.compile(text)", "re.fullmatch(f'{a}', b)", "from re import compile", "import re as r", "re.sub(x, '', y)"],
)
def test_the_rule_finds(source: str) -> None:
    assert [*others(source)] == [1]


TEXT_SIZE = 8_000
SECONDS_MAX = 0.1
"""Of processor time for a text of that size: what takes time by its square needs several times as much, all else some
hundred microseconds."""
AROUND = [("", ""), ("", "!"), ("1", "x"), ("[", "\\"), ("a", "\0")]
ROOMS = ("broker", "controller", "protocol", "storage")


def own_patterns() -> Iterator[tuple[str, str, list[Callable[[str], Any]]]]:
    """Each compiled pattern of text: where it is, the pattern, and the functions by which it is used."""
    for path in sorted(path for name in ROOMS for path in (ROOT / name).rglob("*.py")):
        source = path.read_text()
        if "re.compile(" not in source:
            continue
        module = import_module("minikafka." + ".".join(path.relative_to(ROOT).with_suffix("").parts))
        for name, pattern in vars(module).items():
            if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str) and f"{name} = re." in source:
                used = set(re.findall(rf"\b{name}\.({'|'.join(FUNCTIONS)})\b", source))
                functions = [getattr(pattern, one) for one in sorted(used - {"sub", "finditer"})]
                functions += [pattern.findall] if used & {"sub", "finditer"} else []
                yield f"{path.relative_to(ROOT)}: {name}", pattern.pattern, functions


OWN = [*own_patterns(), ("split_list", ", \t\f", [split_list])]


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "functions"), [one[1:] for one in OWN], ids=[one[0] for one in OWN])
def test_own_patterns_take_time_in_proportion_to_the_text(
    pattern: str, functions: list[Callable[[str], Any]]
) -> None:
    letters = [*dict.fromkeys(re.sub(r"\\[dwsDWS]", "1", pattern))][:16]
    for unit in [*letters, *map("".join, permutations(letters, 2))]:
        for before, after in AROUND:
            text = before + unit * (TEXT_SIZE // len(unit)) + after
            for function in functions:
                assert min(seconds(function, text) for _ in range(2)) < SECONDS_MAX, (unit, before, after)


def seconds(function: Callable[[str], Any], text: str) -> float:
    began_s = time.process_time()
    function(text)
    return time.process_time() - began_s
