"""Exceptions that are values keep no frames: by way of a traceback a request of 10 MiB would stay in memory for good.

An exception of which a frame of its traceback knows is a cycle; one that is kept keeps those frames. So a caught one
that is returned, assigned or put into a container goes through `errors.without_frames`, and what was kept is raised as
`errors.again(…)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = [path for name in ("broker", "controller", "protocol", "storage") for path in (ROOT / name).rglob("*.py")]
VALUES = (ast.Return, ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Tuple, ast.List, ast.Dict, ast.Yield)
CAPTURES = ("storage/disks/worker.py",)
"""Hands exceptions on, with their frames, to where they are raised at once."""


def kept(handler: ast.ExceptHandler) -> Iterator[ast.AST]:
    """Where a caught exception becomes a value as it is."""
    for node in ast.walk(handler):
        is_append = isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("append", "add", "setdefault")
        if isinstance(node, VALUES) or is_append:
            parts = [*ast.iter_child_nodes(node)]
            if any(isinstance(part, ast.Name) and part.id == handler.name for part in parts):
                yield node


def raised(function: ast.AST) -> Iterator[ast.AST]:
    """Where an exception is raised that was kept: by an attribute, an index, or a name, unless the name is deleted."""
    nodes = [*ast.walk(function)]
    deleted = {ast.unparse(name) for node in nodes if isinstance(node, ast.Delete) for name in node.targets}
    for node in nodes:
        if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Attribute | ast.Subscript | ast.Name):
            continue
        name = ast.unparse(node.exc)
        if not name.rpartition(".")[2][0].isupper() and name not in deleted:
            yield node


def found(source: str) -> list[int]:
    """The lines that break the rule."""
    tree = ast.parse(source)
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name]
    return sorted({node.lineno for node in [*(n for h in handlers for n in kept(h)), *raised(tree)]})  # type: ignore[attr-defined]


@pytest.mark.slow
def test_exceptions_are_kept_without_frames_and_raised_as_copies() -> None:
    lines = {str(path.relative_to(ROOT)): found(path.read_text()) for path in SOURCES}
    assert {path: some for path, some in lines.items() if some and path not in CAPTURES} == {}


@pytest.mark.parametrize(
    "body",
    [
        "return error",
        "self.error = error",
        "outcome: Outcome = error",
        "known[key] = error",
        "a[1], b = error, 2",
        "errors.append(error)",
        "raise self.error",
        "raise kept[0]",
        "raise another",
    ],
)
def test_the_rule_finds(body: str) -> None:
    assert found(f"try:\n    work()\nexcept KafkaError as error:\n    {body}\n") == [4]


@pytest.mark.parametrize(
    "body",
    [
        "return without_frames(error)",
        "raise InvalidRequestError(str(error)) from error",
        "raise",
        "raise again(self.error)",
        "raise NotLeaderError",
    ],
)
def test_the_rule_allows(body: str) -> None:
    assert found(f"try:\n    work()\nexcept KafkaError as error:\n    {body}\n") == []
