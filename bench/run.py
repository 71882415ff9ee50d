"""The benchmark: minikafka beside Apache Kafka, measured in one run.

    python -m bench.run [--quick] [--only CASE …]      (or `make bench`; about twenty minutes, two with --quick)

Nodes and clients share the machine's cores. The table of each case is written to bench/results/ as soon as it is
complete, and with it bench/RESULTS.md (`bench/pages.py`); the results of a quick run are only printed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench.codecs import measure_codecs
from bench.compaction import measure_compaction
from bench.connections import measure_connections
from bench.groups import measure_groups
from bench.metrics import measure_metrics
from bench.nodes import Node, kinds
from bench.pages import save
from bench.raw import measure_latency, measure_requests
from bench.results import Figure, machine, table
from bench.security import measure_security
from bench.spark import measure_spark
from bench.spark_sink import measure_sink
from bench.startup import measure_log_sizes, measure_start
from bench.steps import steps_above_budget
from bench.three_nodes import measure_catching_up, measure_cluster
from bench.throughput import measure_clients, measure_confluent
from bench.transactions import measure_transactions

WITH_A_RUNNING_NODE: dict[str, Callable[[Node, bool], Iterator[Figure]]] = {
    "confluent": measure_confluent,
    "clients": measure_clients,
    "requests": measure_requests,
    "latency": measure_latency,
    "connections": measure_connections,
    "codecs": measure_codecs,
    "spark": measure_spark,
    "spark-sink": measure_sink,
}
STARTING_NODES: dict[str, Callable[[type[Node], Path, bool], Iterator[Figure]]] = {
    "start": measure_start,
    "sizes": measure_log_sizes,
    "cluster": measure_cluster,
    "catching-up": measure_catching_up,
    "transactions": measure_transactions,
    "groups": measure_groups,
    "compaction": measure_compaction,
    "metrics": measure_metrics,
    "security": measure_security,
}
CASES = [*WITH_A_RUNNING_NODE, *STARTING_NODES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="measure less, in two minutes")
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--nodes", nargs="+", default=[kind.name for kind in kinds()], help="kinds of nodes to measure")
    options = parser.parse_args()
    measured = [kind for kind in kinds() if kind.name in options.nodes]
    complete = not options.quick and len(measured) == len(kinds())
    for case in options.only:
        figures: dict[tuple[str, str], Figure] = {}
        for kind in measured:
            collect(figures, reported(case, kind, options.quick))
        text = table(list(figures.values()), [kind.name for kind in measured])
        print(f"\n{text}", flush=True)
        if complete:
            save(case, text)
    print(machine())


def reported(case: str, kind: type[Node], quick: bool) -> Iterator[Figure]:
    """Measure one case with one kind of node, and print each figure."""
    folder = Path(tempfile.mkdtemp(prefix="minikafka-bench-"))
    try:
        for figure in measure(case, kind, folder, quick):
            print(" ".join(figure.row([kind.name])[:3]), f"({kind.name})", file=sys.stderr, flush=True)
            yield figure
        if kind is Node:
            yield from steps_above_budget(folder, kind.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(case: str, kind: type[Node], folder: Path, quick: bool) -> Iterator[Figure]:
    if case in STARTING_NODES:
        yield from STARTING_NODES[case](kind, folder, quick)
    else:
        with kind(folder) as node:
            yield from WITH_A_RUNNING_NODE[case](node, quick)


def collect(figures: dict[tuple[str, str], Figure], new: Iterable[Figure]) -> None:
    """Merge figures of the same subject into one row."""
    for figure in new:
        figures.setdefault((figure.subject, figure.unit), figure).values.update(figure.values)


if __name__ == "__main__":
    main()
