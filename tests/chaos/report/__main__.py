"""Writes the report of a folder anew: `python -m chaos.report build/chaos`, with `tests` in PYTHONPATH."""

from __future__ import annotations

import sys
from pathlib import Path

from chaos.checker import check
from chaos.history import read_lines
from chaos.journal import Deed, read_journal
from chaos.report.page import report_page
from chaos.report.run_facts import RunFacts
from chaos.workload.plan import Plan


def main(folder: Path) -> None:
    """Raises OSError if files are missing, ValueError if they are malformed."""
    with (folder / "history.jsonl").open() as history, (folder / "journal.jsonl").open() as journal:
        events, entries = list(read_lines(history)), list(read_journal(journal))
    nodes = sorted({node for one in entries if isinstance(one, Deed) for node in one.nodes} | {1, 2, 3})
    anomalies = check(events, compacted=Plan.of(len(nodes)).compacted)
    facts = RunFacts(folder.name, "", nodes, events, entries, anomalies)
    (folder / "report.html").write_text(report_page(facts))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
