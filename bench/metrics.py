"""Measures what metrics cost: a node with `metrics.listener` beside one without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.nodes import KafkaNode, Node, free_port
from bench.pairs import Case, Compared, fetch, measure_pairs, produce
from bench.results import Figure, Goal


def measure_metrics(kind: type[Node], folder: Path, quick: bool) -> Iterator[Figure]:
    """The additional CPU time of a node whose requests are measured."""
    if kind is KafkaNode:
        return
    pairs, rounds = (2, 30) if quick else (12, 60)
    yield from measure_pairs(METRICS, kind, folder, pairs, rounds)


CASES = {
    "Produce of 1 record, one at a time": Case(produce(1, 100), 200),
    "Produce of 1 record, pipelined": Case(produce(1, 100), 8, pipelined=50),
    "Produce of 100 records, one at a time": Case(produce(100, 100), 100),
    "Fetch of 16 KiB, one at a time": Case(fetch(16 << 10), 100),
    "Fetch of 256 KiB, one at a time": Case(fetch(256 << 10), 50),
}
METRICS = Compared(
    "metrics", lambda: {"metrics.listener": f"http://127.0.0.1:{free_port()}"}, Goal(2, at_most=True), CASES
)
