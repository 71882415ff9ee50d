"""`docs/files.md` lists every file, and `ARCHITECTURE.md` and other pages name only files that exist."""

import re
from pathlib import Path

import pytest
from support.file_list import FOLDERS, PAGE, ROOT, file_list, folders, is_api, summary

FILES = [path for top in FOLDERS for folder in folders(ROOT / top) for path in sorted(folder.glob("*.py"))]
SUMMARISED = [path for path in FILES if not is_api(path)]
TOPS = "broker|cli|client|controller|docker|protocol|spark_connector|storage|testing|tests|docs"
MENTION = re.compile(rf"`((?:{TOPS})/[\w/.-]+\.\w+)`")
PAGES = ("ARCHITECTURE.md", "STYLE.md", "DECISIONS.md", "README.md", "docs/spark.md", "docs/docker.md")
SUMMARY_MAX = 160


@pytest.mark.slow
def test_the_list_of_files_is_up_to_date() -> None:
    assert PAGE.read_text() == file_list(), "run `make pages`"


@pytest.mark.parametrize("path", SUMMARISED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_is_summarised_in_one_line(path: Path) -> None:
    text = summary(path)
    assert text.endswith(".")
    assert len(text) <= SUMMARY_MAX


@pytest.mark.parametrize("page", PAGES)
def test_pages_name_files_that_exist(page: str) -> None:
    named = set(MENTION.findall((ROOT / page).read_text()))
    assert {name for name in named if not (ROOT / name).exists()} == set()
