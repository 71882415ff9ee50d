"""The benchmark: one table, ours beside Apache Kafka's, measured in one run.

    python -m bench.run [--quick] [--only CASE …]      (or `make bench`; about twenty minutes, two with --quick)

Everything shares the machine's cores: the node, and the client that measures it. Each case's table is written to
bench/RESULTS.md as soon as it is complete, with the machine that it was made on; a quick one is only printed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench.nodes import Node, kinds
from bench.raw import measure_latency, measure_requests
from bench.results import Figure, machine, table
from bench.spark import measure_spark
from bench.startup import measure_log_sizes, measure_start
from bench.three_nodes import measure_cluster
from bench.throughput import measure_clients, measure_confluent

RESULTS = Path(__file__).with_name("RESULTS.md")
ON_A_NODE: dict[str, Callable[[Node, bool], Iterator[Figure]]] = {
    "confluent": measure_confluent,
    "clients": measure_clients,
    "requests": measure_requests,
    "latency": measure_latency,
    "spark": measure_spark,
}
WITH_NODES_OF_THEIR_OWN: dict[str, Callable[[type[Node], Path, bool], Iterator[Figure]]] = {
    "start": measure_start,
    "sizes": measure_log_sizes,
    "cluster": measure_cluster,
}
CASES = [*ON_A_NODE, *WITH_NODES_OF_THEIR_OWN]
HEAD = """# Measured

By `make bench` on {machine}.

Client and nodes share these cores. ✗ marks a goal that is missed; the references are Apache Kafka 4.3.1 on two such
cores when the goals were set, or a client of this very run, as is the column Apache Kafka. Each table is of one run.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two minutes, with less to measure")
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--nodes", nargs="+", default=[kind.name for kind in kinds()], help="which of them")
    options = parser.parse_args()
    measured = [kind for kind in kinds() if kind.name in options.nodes]
    complete = not options.quick and len(measured) == len(kinds())
    for case in options.only:
        figures: dict[tuple[str, str], Figure] = {}
        for kind in measured:
            collect(figures, said(case, kind, options.quick))
        text = table(list(figures.values()), [kind.name for kind in measured])
        print(f"\n{text}", flush=True)
        if complete:
            keep(case, text)
    print(machine())


def said(case: str, kind: type[Node], quick: bool) -> Iterator[Figure]:
    """Measures one case with one node, and tells each figure as it comes."""
    folder = Path(tempfile.mkdtemp(prefix="minikafka-bench-"))
    try:
        for figure in measure(case, kind, folder, quick):
            print(" ".join(figure.row([kind.name])[:3]), f"({kind.name})", file=sys.stderr, flush=True)
            yield figure
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(case: str, kind: type[Node], folder: Path, quick: bool) -> Iterator[Figure]:
    if case in WITH_NODES_OF_THEIR_OWN:
        yield from WITH_NODES_OF_THEIR_OWN[case](kind, folder, quick)
    else:
        with kind(folder) as node:
            yield from ON_A_NODE[case](node, quick)


def collect(figures: dict[tuple[str, str], Figure], new: Iterable[Figure]) -> None:
    """Figures of one subject become one row."""
    for figure in new:
        figures.setdefault((figure.subject, figure.unit), figure).values.update(figure.values)


def keep(case: str, text: str) -> None:
    """Put the table of a case into RESULTS.md, in the place of its older one."""
    sections: dict[str, str] = {}
    if RESULTS.exists():
        for section in RESULTS.read_text().split("\n## ")[1:]:
            title, _, body = section.partition("\n")
            sections[title] = body.strip()
    sections[case] = text.strip()
    tables = "\n\n".join(f"## {one}\n\n{sections[one]}" for one in CASES if one in sections)
    RESULTS.write_text(f"{HEAD.format(machine=machine())}\n{tables}\n")


if __name__ == "__main__":
    main()
