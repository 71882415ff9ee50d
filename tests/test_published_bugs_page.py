"""Checks `docs/published-bugs.md`: each entry names a rule and existing tests, or the capability it waits for."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENTRIES = re.split(r"^### ", (ROOT / "docs/published-bugs.md").read_text(), flags=re.MULTILINE)[1:]
TEST = re.compile(r"^- \*\*Test\.\*\* (.+?)(?=^$|^#|\Z)", re.DOTALL | re.MULTILINE)


def title(entry: str) -> str:
    return entry.partition("\n")[0]


@pytest.mark.parametrize("entry", ENTRIES, ids=title)
def test_the_tests_of_an_entry_exist(entry: str) -> None:
    found = TEST.search(entry)
    assert found is not None, "the entry names no test"
    named = re.findall(r"`([^`]+)`", found[1])
    assert named or found[1].startswith("Not applicable yet: ")
    missing = [name for name in named if not (ROOT / name).is_file()]
    assert missing == []


@pytest.mark.parametrize("entry", ENTRIES, ids=title)
def test_an_entry_has_a_rule(entry: str) -> None:
    assert title(entry).startswith("Invariants") or ("**What went wrong.**" in entry and "**Rule.**" in entry)


def test_titles_are_unique() -> None:
    titles = [title(entry) for entry in ENTRIES]
    assert len(set(titles)) == len(titles)
