"""`make test-for FILE=…` finds tests for each file of the packages, and those that a reader would name."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutations.run import ROOMS
from support.tests_for import ROOT, belonging_to

FILES = sorted(path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py"))
EXPECTED = {
    "client/consumer/failures.py": "tests/client/consumer/test_moot_errors.py",  # imports it
    "client/consumer/fetched_chunks.py": "tests/client/consumer/test_useless_responses.py",  # catches planted bugs
    "client/connections/retry_backoff.py": "tests/client/producer/test_record_accumulator.py",
    "spark_connector/__init__.py": "tests/spark",
    "cli/commands/consume.py": "tests/cli/commands/test_consume.py",
    "tests/test_tidy.py": "tests/test_tidy.py",
}


def test_each_file_has_tests_that_exist() -> None:
    found = {file: belonging_to(file) for file in FILES}
    assert all(found.values())
    assert not {file: tests for file, tests in found.items() if not all((ROOT / one).exists() for one in tests)}


@pytest.mark.parametrize("file", EXPECTED)
def test_the_tests_of_a_file_are_found(file: str) -> None:
    found = belonging_to(file)
    assert any(one == EXPECTED[file] or Path(one).is_relative_to(EXPECTED[file]) for one in found), found


@pytest.mark.parametrize("file", ["README.md", "nowhere.py", "../main", "docs/index.md", "bench/run.py"])
def test_what_has_no_tests_of_its_own_is_an_error(file: str) -> None:
    with pytest.raises(ValueError, match=r"no file|in none of the packages"):
        belonging_to(file)
