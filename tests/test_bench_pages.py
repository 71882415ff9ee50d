"""The pages of measurements: RESULTS.md and its chart are made from the tables of the cases, which a run replaces."""

from __future__ import annotations

import re
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"
LINK = re.compile(r"\[[^\]]*\]\((?P<path>[^)#]*)#?(?P<anchor>[^)]*)\)")
TABLE = """\
| measured                  | unit | minikafka | Apache Kafka |   goal | reference |
| ------------------------- | ---- | --------: | -----------: | -----: | --------: |
| one record at a time, p50 | ms   |    0.40 ✗ |         0.10 | ≤ 0.25 |           |
| one record at a time, p99 | ms   |      2.00 |         3.00 | ≤ 4.00 |           |
"""


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`bench/pages.py`."""
    monkeypatch.syspath_prepend(str(ROOT))
    return import_module("bench.pages")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the pages, to write to."""
    (tmp_path / "results").mkdir()
    for page in (BENCH / "results").glob("*.md"):
        shutil.copy(page, tmp_path / "results")
    return tmp_path


def cells(page: Path, label: str) -> list[str]:
    """The cells of the row whose first cell begins with the label, or with a link of that text."""
    row = next(line for line in page.read_text().split("\n") if line.startswith((f"| {label} ", f"| [{label}](")))
    return [cell.strip() for cell in row[1:-1].split("|")][1:]


def test_the_pages_are_those_that_the_generator_writes(pages: Any, copy: Path) -> None:
    pages.write_summary(copy)
    for name in ("RESULTS.md", "results/chart.svg"):
        assert (copy / name).read_text() == (BENCH / name).read_text(), "python -m bench.pages"


def test_each_page_of_a_case_is_as_a_run_writes_it(pages: Any, bench_cases: list[str]) -> None:
    history = BENCH / "results" / "history.md"
    for page in pages.case_pages(BENCH):
        assert page.case in bench_cases
        text = (BENCH / "results" / f"{page.case}.md").read_text()
        table = text[text.index("\n| ") + 1 : text.rindex("|\n") + 2]
        assert text == pages.case_page(page.case, page.day, page.machine, table, history)


@pytest.fixture
def bench_cases(pages: Any) -> list[str]:
    """The cases that can be measured."""
    return import_module("bench.run").CASES


def test_every_row_of_the_summary_is_found_in_the_tables(pages: Any) -> None:
    rows = {(page.case, row.subject, row.unit) for page in pages.case_pages(BENCH) for row in page.rows}
    assert [line for line in pages.SUMMARY if line[1:] not in rows] == []
    assert len({line.label for line in pages.SUMMARY}) == len(pages.SUMMARY)


def test_a_row_of_the_summary_has_the_cells_of_its_table_and_the_chart_its_ratio(pages: Any) -> None:
    chart = (BENCH / "results" / "chart.svg").read_text()
    for line in pages.SUMMARY:
        unit, ours, other, ratio, goal = cells(BENCH / "RESULTS.md", line.label)
        (row,) = [
            row
            for page in pages.case_pages(BENCH)
            for row in page.rows
            if (page.case, row.subject, row.unit) == line[1:]
        ]
        assert (unit, ours, other, goal) == (line.unit, *[row.cells[one] for one in (*pages.COLUMNS, "goal")])
        drawn = chart.split(f">{line.label}</text>")[1].split("\n")[0]
        assert drawn.endswith(f">{ratio}</text>")


def test_a_saved_case_replaces_its_table_and_its_rows_and_nothing_else(pages: Any, copy: Path) -> None:
    before = {page.name: page.read_text() for page in (copy / "results").iterdir()}
    pages.save("latency", TABLE, copy)
    after = {page.name: page.read_text() for page in (copy / "results").glob("*.md")}
    assert [name for name, text in after.items() if text != before[name]] == ["latency.md"]
    assert f"\n{TABLE}\n" in after["latency.md"]
    assert cells(copy / "RESULTS.md", "one record at a time, p50") == ["ms", "0.40 ✗", "0.10", "0.25", "≤ 0.25"]
    assert cells(copy / "RESULTS.md", "one record at a time, p99") == ["ms", "2.00", "3.00", "1.50", "≤ 4.00"]
    assert "[latency](results/latency.md) 1 of 2" in " ".join((copy / "RESULTS.md").read_text().split())


def test_a_case_without_apache_kafka_or_with_less_measured_leaves_rows_out(pages: Any, copy: Path) -> None:
    alone = TABLE.replace(" Apache Kafka |", "").replace(" -----------: |", "").replace("        0.10 |", "")
    pages.save("latency", alone.replace("         3.00 |", "").replace("p99", "p999"), copy)
    assert cells(copy / "RESULTS.md", "one record at a time, p50") == ["ms", "0.40 ✗", "", "", "≤ 0.25"]
    assert "one record at a time, p99" not in (copy / "RESULTS.md").read_text()
    assert ">one record at a time, p50<" not in (copy / "results" / "chart.svg").read_text()


@pytest.mark.parametrize(
    ("unit", "ratio"),
    [("records/s", 0.5), ("million rows/s", 0.5), ("ms, p99", 2.0), ("MiB", 2.0), ("% of a core", 2.0)],
)
def test_a_ratio_above_one_is_in_favor_of_minikafka(pages: Any, unit: str, ratio: float) -> None:
    assert pages.Row("x", unit, {"minikafka": "1,000 ✗", "Apache Kafka": "2,000", "goal": ""}).ratio() == ratio


def test_a_page_that_does_not_say_when_it_was_measured_is_refused(pages: Any, copy: Path) -> None:
    (copy / "results" / "latency.md").write_text(TABLE)
    with pytest.raises(ValueError, match=r"latency\.md"):
        pages.write_summary(copy)


@pytest.mark.parametrize(
    "page", [BENCH / "RESULTS.md", *sorted((BENCH / "results").glob("*.md"))], ids=lambda it: it.stem
)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for found in LINK.finditer(page.read_text()):
        target = page.parent / found["path"]
        assert target.is_file()
        headings = [
            line.lstrip("# ").lower().replace(" ", "-") for line in target.read_text().split("\n") if line[:1] == "#"
        ]
        assert not found["anchor"] or found["anchor"] in headings
