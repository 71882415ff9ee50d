"""Counts in texts for people agree with their nouns: `1 record`, `2 records`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from minikafka.protocol.counted import counted

ROOT = Path(__file__).parents[2]
SOURCES = [path for name in ("cli", "client", "spark_connector") for path in sorted((ROOT / name).rglob("*.py"))]
NOUNS = (
    *("addresses", "attempts", "batches", "brokers", "bytes", "clients", "consumers", "controllers", "directories"),
    *("entries", "fields", "files", "groups", "headers", "keys", "letters", "lines", "listeners", "logs", "members"),
    *("messages", "nodes", "offsets", "others", "partitions", "producers", "records", "replicas", "requests", "rows"),
    *("segments", "settings", "tasks", "times", "topics", "transactions", "values", "voters"),
)
NOUN = re.compile(rf" (?:[a-z]+ )?(?:{'|'.join(NOUNS)})\b(?!/s)")
KAFKAS_WORDS = {
    ("cli/commands/statistics.py", " records sent, "),
    ("cli/commands/statistics.py", " records/sec ("),
    ("spark_connector/sink/task_writer.py", " bytes when serialized which is larger than "),
    ("spark_connector/source/offset_resolution.py", " offsets don't match what are assigned."),
}


@pytest.mark.parametrize(
    ("count", "noun", "expected"),
    [
        (0, ("record",), "0 records"),
        (1, ("record",), "1 record"),
        (2000, ("record",), "2,000 records"),
        (1, ("directory", "directories"), "1 directory"),
        (2, ("directory", "directories"), "2 directories"),
    ],
)
def test_a_count_agrees_with_its_noun(count: int, noun: tuple[str, ...], expected: str) -> None:
    assert counted(count, *noun) == expected


def after_values(tree: ast.AST) -> Iterator[str]:
    """What follows the values within f-strings, but for constants, whose number is known."""
    for node in ast.walk(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for part, text in pairwise(parts):
            if isinstance(part, ast.FormattedValue) and isinstance(text, ast.Constant) and not is_constant(part.value):
                yield str(text.value)


def is_constant(value: ast.expr) -> bool:
    return ast.unparse(value).split(" ")[0].isupper()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_text_has_a_number_before_a_plural(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    texts = [one for one in after_values(ast.parse(path.read_text())) if NOUN.match(one)]
    assert [one for one in texts if not any(name == at and one.startswith(kept) for at, kept in KAFKAS_WORDS)] == []
