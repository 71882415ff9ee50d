"""Measures startup time and memory of a node, and how they depend on the size of its logs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.nodes import Node
from bench.raw import create_topic, lookup_ms
from bench.results import Figure, Goal
from bench.throughput import work

MIB = 1 << 20
RECORD_BYTES = 1000
RECORDS_PER_SEGMENT = 1030
SEGMENTS = (1, 10, 100, 1000)
SETTLE_S = 3


def measure_start(kind: type[Node], folder: Path, quick: bool) -> Iterator[Figure]:
    """Cold start in a new folder, and memory when idle."""
    times: list[float] = []
    memory = 0
    for number in range(2 if quick else 5):
        with closing(kind(folder / f"start-{number}")) as node:
            times.append(node.start())
            if not memory:
                time.sleep(SETTLE_S)
                memory = node.resident_bytes()
            node.stop()
    start = Goal(0.5, at_most=True, reference="Kafka 2.7 and a format step")
    yield Figure("cold start to `ready`, new folder", "s", start, {kind.name: median(times)})
    idle = Goal(70, at_most=True, reference="Kafka 400")
    yield Figure("idle memory", "MiB", idle, {kind.name: memory / MIB})


def measure_log_sizes(kind: type[Node], folder: Path, quick: bool) -> Iterator[Figure]:
    """Logs of 1 to 1,000 segments of 1 MiB: median look-up by timestamp, and restart."""
    for segments in SEGMENTS[: 2 if quick else None]:
        with closing(kind(folder / f"segments-{segments}")) as node:
            yield from measure_log_size(node, segments, 200 if quick else 2000)


def measure_log_size(node: Node, segments: int, lookups: int) -> Iterator[Figure]:
    node.start()
    create_topic(node.address, "sized", {"segment.bytes": str(MIB)})
    count = segments * RECORDS_PER_SEGMENT
    first_time_ms = time.time_ns() // 1_000_000 - count
    where: dict[str, object] = {"bootstrap": node.bootstrap, "topic": "sized", "count": count}
    work("produce_timed", **where, size=RECORD_BYTES, first_time_ms=first_time_ms)
    lookup = lookup_ms(node, "sized", first_time_ms, count, lookups)
    node.stop()
    clean = node.start()
    node.kill()
    killed = node.start()
    node.stop()
    size = f"{segments:,} segment{'s' if segments > 1 else ''}"
    yield Figure(f"look-up of a time, {size}", "ms", None, {node.name: lookup})
    yield Figure(f"start after a clean stop, {size}", "s", None, {node.name: clean})
    yield Figure(f"start after kill -9, {size}", "s", None, {node.name: killed})


@contextmanager
def closing(node: Node) -> Iterator[Node]:
    """Kill the node at the end of the block."""
    try:
        yield node
    finally:
        node.kill()
