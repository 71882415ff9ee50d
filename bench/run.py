"""The benchmark: one table, ours beside Apache Kafka's, measured in one run.

    python -m bench.run [--quick] [--only CASE …]      (or `make bench`; about eight minutes, a minute with --quick)

Everything shares the machine's cores: the node, and the client that measures it. The whole run is written to
bench/RESULTS.md with the machine that it was made on; a quick or partial one is only printed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench.cluster import measure_cluster
from bench.nodes import Node, kinds
from bench.raw import measure_latency, measure_requests
from bench.results import Figure, machine, table
from bench.spark import measure_spark
from bench.startup import measure_log_sizes, measure_start
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a minute, with less to measure")
    cases = [*ON_A_NODE, *WITH_NODES_OF_THEIR_OWN]
    parser.add_argument("--only", nargs="+", choices=cases, default=cases, metavar="CASE", help=", ".join(cases))
    parser.add_argument("--nodes", nargs="+", default=[kind.name for kind in kinds()], help="which of them")
    options = parser.parse_args()
    measured = [kind for kind in kinds() if kind.name in options.nodes]
    began = time.monotonic()
    figures: dict[tuple[str, str], Figure] = {}
    for case in options.only:
        for kind in measured:
            collect(figures, said(case, kind, options.quick))
    text = table(list(figures.values()), [kind.name for kind in measured])
    print(f"\n{text}\n{machine()}; {time.monotonic() - began:.0f} s")
    if not options.quick and options.only == cases and len(options.nodes) == len(kinds()):
        write(text)


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


def write(text: str) -> None:
    RESULTS.write_text(
        "# Measured\n\n"
        f"By `make bench` on {machine()}.\n\n"
        "Client and node share these cores. ✗ marks a goal that is missed; the references are Apache Kafka 4.3.1 on\n"
        "two such cores when the goals were set, or a client of this very run, as is the column Apache Kafka.\n\n"
        f"{text}"
    )


if __name__ == "__main__":
    main()
