"""The ids that a node draws, such as those of topics and fetch sessions, do not tell which other ids it draws.

Python's `Random` has a state of 624 numbers, which as many of its numbers tell: a client sees more ids than that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka import broker, controller, storage

PACKAGES = [Path(package.__path__[0]) for package in (broker, controller, storage)]


def with_a_state(source: str) -> Iterator[int]:
    """The lines that make a generator whose numbers tell its state; one with a seed is for tests."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and not node.args and ast.unparse(node.func) in ("Random", "random.Random"):
            yield node.lineno


def test_the_generator_of_a_node_has_no_state() -> None:
    found = {path: [*with_a_state(path.read_text())] for folder in PACKAGES for path in folder.rglob("*.py")}
    assert len(found) > 100
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(("source", "found"), [("random.Random()", [1]), ("Random()", [1]), ("SystemRandom()", [])])
def test_the_rule_finds(source: str, found: list[int]) -> None:
    assert [*with_a_state(source)] == found
