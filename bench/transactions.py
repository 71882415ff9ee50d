"""Measures transactions: how many a second, their latency, and their cost beside idempotent records without them.

*Caveats:* librdkafka waits for a timer of 1 ms in most transactions before it adds their partitions, which no node can
shorten: the goal of the cost is out of reach for confluent-kafka (`results/history.md`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from bench.nodes import Node
from bench.raw import create_topic
from bench.results import Beside, Figure, Goal
from bench.three_nodes import cluster_of, new_topic, running
from bench.throughput import work
from bench.workers import Run

SIZE = 100
TRANSACTIONS = {1: 300, 100: 150, 1000: 100}
"""How many are measured, by the number of records of each."""
COST_PERCENT_MAX = 10
RATE, LATENCY = Beside(1.5), Beside(at_most=True)
WORKERS = (
    "transact_confluent",
    "produce_idempotent_confluent",
    "transact_minikafka",
    "produce_idempotent_minikafka",
)
NUMBERS = itertools.count()


def measure_transactions(kind: type[Node], folder: Path, quick: bool) -> Iterator[Figure]:
    """One node, then three replicas; confluent-kafka (protocol version 1), and minikafka's client (version 2)."""
    with kind(folder / "one") as node:
        yield from _measure(kind.name, node.bootstrap, lambda: _topic(node), "", quick)
    with running(cluster_of(kind, folder / "three")) as cluster:
        yield from _measure(kind.name, cluster.bootstrap, lambda: new_topic(cluster), ", three replicas", quick)


def _topic(node: Node) -> str:
    topic = f"transactions-{next(NUMBERS)}"
    create_topic(node.address, topic)
    return topic


def _measure(name: str, bootstrap: str, topic: Callable[[], str], where: str, quick: bool) -> Iterator[Figure]:
    for records, count in TRANSACTIONS.items():
        made = {"transactions": count // 5 if quick else count, "records": records, "size": SIZE}
        rounds = [
            [
                work(worker, bootstrap=bootstrap, topic=topic(), **made, warm_up=20 if quick else 50)
                for worker in WORKERS
            ]
            for _ in range(1 if quick else 3)
        ]
        confluent, plain, ours, our_plain = zip(*rounds, strict=True)
        of = f"{records:,} record{'s' if records > 1 else ''} each{where}"
        yield Figure(f"confluent-kafka, {of}", "transactions/s", RATE, {name: _rate(confluent) / records})
        if records > 1:
            yield Figure(f"confluent-kafka, {of}", "records/s", None, {name: _rate(confluent)})
        yield Figure(f"confluent-kafka, {of}", "ms, p50", LATENCY, {name: median(run.p50_ms for run in confluent)})
        yield Figure(f"confluent-kafka, {of}", "ms, p99", LATENCY, {name: median(run.p99_ms for run in confluent)})
        yield Figure(f"minikafka.client, {of}", "transactions/s", RATE, {name: _rate(ours) / records})
        yield Figure(f"minikafka.client, {of}", "ms, p50", LATENCY, {name: median(run.p50_ms for run in ours)})
        yield Figure(f"minikafka.client, {of}", "ms, p99", LATENCY, {name: median(run.p99_ms for run in ours)})
        goal = Goal(COST_PERCENT_MAX, at_most=True) if records == max(TRANSACTIONS) else None
        for client, dear, cheap in (("confluent-kafka", confluent, plain), ("minikafka.client", ours, our_plain)):
            cost = _cost_percent(dear, cheap)
            yield Figure(f"{client}, cost beside a flush without one, {of}", "%", goal, {name: cost})


def _cost_percent(dear: tuple[Run, ...], cheap: tuple[Run, ...]) -> float:
    """The share of the rate that transactions take: the median of the rounds."""
    return median(100 * (1 - one.rate / other.rate) for one, other in zip(dear, cheap, strict=True))


def _rate(runs: tuple[Run, ...]) -> float:
    return median(run.rate for run in runs)
