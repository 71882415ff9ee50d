"""The pages of the results: a table for each case, and one page for all, with a table and a chart of some rows.

    bench/results/<case>.md     the table of a case, with its day and machine: the only place of the numbers
    bench/results/history.md    written by hand: under which conditions, and what earlier runs showed, by case
    bench/results/chart.svg     the ratios of the rows below
    bench/RESULTS.md            the rows of SUMMARY, and how many goals each table misses

    python -m bench.pages       writes the last two anew from the tables, as each saved case does
"""

from __future__ import annotations

import datetime
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.chart import bar_chart
from bench.results import MISSED, aligned_table, machine, shown

FOLDER = Path(__file__).parent
TABLES, HISTORY, CHART, RESULTS = "results", "history.md", "chart.svg", "RESULTS.md"
COLUMNS = ("minikafka", "Apache Kafka")
FACTS = re.compile(r"^By `make bench` on (?P<day>\d{4}-\d\d-\d\d), on (?P<machine>.+)\.$", re.MULTILINE)


class Line(NamedTuple):
    """A row of RESULTS.md: what it is called there, and where it is found."""

    label: str
    case: str
    subject: str
    unit: str


SUMMARY = (
    Line("confluent-kafka writes, 100 B", "confluent", "confluent-kafka in, 100 B", "records/s"),
    Line("confluent-kafka reads, 100 B", "confluent", "confluent-kafka out, 100 B", "records/s"),
    Line("confluent-kafka writes, 1000 B", "confluent", "confluent-kafka in, 1000 B", "MB/s"),
    Line("confluent-kafka reads, 1000 B", "confluent", "confluent-kafka out, 1000 B", "MB/s"),
    Line("minikafka.client writes, 100 B", "clients", "minikafka.client in, 100 B", "records/s"),
    Line("minikafka.client reads, 100 B", "clients", "minikafka.client out, 100 B", "records/s"),
    Line("batches with zstd", "codecs", "batches of 5,000 records, zstd", "MB/s"),
    Line("one record at a time, p50", "latency", "one record at a time, p50", "ms"),
    Line("one record at a time, p99", "latency", "one record at a time, p99", "ms"),
    Line("requests, 1,000 connections", "connections", "requests, 1,000 connections", "requests/s"),
    Line("deliveries, 1,000 connections", "connections", "deliveries, 1,000 connections", "ms, p99"),
    Line("Spark reads, 100 B", "spark", "Spark batch, ours: 100 B, batches of 1,000", "million rows/s"),
    Line("Spark stream, micro-batch", "spark", "micro-batch, ours", "ms, median"),
    Line("TLS: confluent-kafka writes, 1000 B", "security", "SSL: confluent-kafka in, 1000 B", "MB/s"),
    Line("TLS: confluent-kafka reads, 1000 B", "security", "SSL: confluent-kafka out, 1000 B", "MB/s"),
    Line("TLS handshakes", "security", "TLS 1.3 handshakes, 8 clients", "connections/s"),
    Line("cold start, new folder", "start", "cold start to `ready`, new folder", "s"),
    Line("idle memory", "start", "idle memory", "MiB"),
    Line("one at a time, three replicas", "cluster", "one record at a time, three replicas, acks all", "records/s"),
    Line("writes, three replicas, 1000 B", "cluster", "confluent-kafka in, three replicas, acks all, 1000 B", "MB/s"),
    Line("gap after kill -9 of a leader", "cluster", "kill -9 of a leader, gap between acknowledgements, median", "s"),
    Line("1,000 partitions, idle", "cluster", "1,000 partitions, idle, all three nodes", "% of a core"),
    Line("a follower catches up", "catching-up", "a follower catches up", "MB/s"),
    Line(
        "transactions of 100, three replicas",
        "transactions",
        "confluent-kafka, 100 records each, three replicas",
        "transactions/s",
    ),
    Line("100 classic members, a join", "groups", "classic: 100 members, 300 partitions, settled after a join", "ms"),
    Line("100 consumer members, a join", "groups", "consumer: 100 members, 300 partitions, settled after a join", "ms"),
    Line("compaction", "compaction", "cleaned, 200 B, 100,000 keys", "MB/s"),
)
CASE_PAGE = """# Measured: {case}

By `make bench` on {day}, on {machine}.

{table}
✗ marks a missed goal. [How it was measured](../RESULTS.md#how-it-was-measured).{history}
"""
HISTORY_LINK = " [Under which conditions, and what earlier runs showed](history.md#{case})."
PAGE = """# Measured

minikafka and Apache Kafka 4.3.1, one after the other, each with its clients on the same cores. A ratio above 1 is in
favor of minikafka, whether more is better or less. ✗ marks a missed goal.

{table}
![The ratios as bars](results/chart.svg)

{goals}

## How it was measured

By `make bench`, from {first} to {last}, the last table on
{machine}.

Client and nodes share these cores. Each table is of one run; its page says when. A reference there is Apache Kafka
4.3.1 on two such cores, measured when the goals were set, or a client measured in this run, as is the column Apache
Kafka. A goal with the reference "Kafka in this run" is computed from that column. [The history](results/history.md)
tells under which conditions the tables came about, what explains them, and how much they vary.
"""


@dataclass(frozen=True)
class Row:
    """A row of a table, as it stands there."""

    subject: str
    unit: str
    cells: dict[str, str]

    @property
    def missed(self) -> bool:
        return any(cell.endswith(MISSED) for cell in self.cells.values())

    def ratio(self) -> float | None:
        """How many times better the first column is; None if a value is missing or 0. Less is better, but for rates."""
        ours, other = [number(self.cells.get(column, "")) for column in COLUMNS]
        if not ours or not other:
            return None
        return ours / other if "/s" in self.unit else other / ours


@dataclass(frozen=True)
class CasePage:
    """The page of a case, as `save` has written it."""

    case: str
    day: str
    machine: str
    rows: list[Row]

    @classmethod
    def read(cls, path: Path) -> CasePage:
        """Raises ValueError if the day and the machine are missing."""
        text = path.read_text()
        facts = FACTS.search(text)
        if facts is None:
            raise ValueError(f"{path}: no line as {FACTS.pattern}")
        lines = [line for line in text.split("\n") if line.startswith("|")]
        head, _, *rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
        found = [Row(row[0], row[1], dict(zip(head[2:], row[2:], strict=True))) for row in rows]
        return cls(path.stem, facts["day"], facts["machine"], found)


def main() -> None:
    write_summary(FOLDER)


def save(case: str, table: str, folder: Path = FOLDER) -> None:
    """Write the page of a case anew, and what is made from all of them."""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    (folder / TABLES / f"{case}.md").write_text(case_page(case, day, machine(), table, folder / TABLES / HISTORY))
    write_summary(folder)


def case_page(case: str, day: str, on: str, table: str, history: Path) -> str:
    """The page of a case. It links to the case's section in the history, if that has one."""
    told = f"\n## {case}\n" in history.read_text()
    link = HISTORY_LINK.format(case=case) if told else ""
    return CASE_PAGE.format(case=case, day=day, machine=on, table=table, history=link)


def write_summary(folder: Path) -> None:
    page, chart = summary(case_pages(folder))
    (folder / RESULTS).write_text(page)
    (folder / TABLES / CHART).write_text(chart)


def case_pages(folder: Path) -> list[CasePage]:
    return [CasePage.read(path) for path in sorted((folder / TABLES).glob("*.md")) if path.name != HISTORY]


def summary(pages: Sequence[CasePage]) -> tuple[str, str]:
    """RESULTS.md and its chart. Rows that no table has are left out."""
    rows = {(page.case, row.subject, row.unit): row for page in pages for row in page.rows}
    found = [(line, rows[line[1:]]) for line in SUMMARY if line[1:] in rows]
    last = max(pages, key=lambda page: page.day)
    page = PAGE.format(
        table=aligned_table(
            ["measured", "unit", *COLUMNS, "ratio", "goal"], [summary_row(line, row) for line, row in found]
        ),
        goals=goals(pages),
        first=min(page.day for page in pages),
        last=last.day,
        machine=last.machine,
    )
    return page, bar_chart([(line.label, ratio) for line, row in found if (ratio := row.ratio()) is not None])


def summary_row(line: Line, row: Row) -> list[str]:
    ratio = row.ratio()
    return [
        f"[{line.label}](results/{line.case}.md)",
        line.unit,
        *[row.cells.get(column, "") for column in COLUMNS],
        "" if ratio is None else shown(ratio),
        row.cells["goal"],
    ]


def goals(pages: Iterable[CasePage]) -> str:
    """Each table, and how many of its goals are met."""
    parts = []
    for page in pages:
        aimed = [row for row in page.rows if row.cells["goal"]]
        met = sum(not row.missed for row in aimed)
        parts.append(f"[{page.case}](results/{page.case}.md) " + (f"{met} of {len(aimed)}" if aimed else "(no goals)"))
    return textwrap.fill(f"All tables, with the goals met: {', '.join(parts)}.", 120)


def number(cell: str) -> float | None:
    """The value of a cell; None if it is empty."""
    text = cell.removesuffix(MISSED).replace(",", "").strip()
    return float(text) if text else None


if __name__ == "__main__":
    main()
