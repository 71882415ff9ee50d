"""Measures records per second, in and out: confluent-kafka, and minikafka's client beside three others."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from statistics import median

from bench.connections import cpu_s
from bench.nodes import Node
from bench.raw import create_topic
from bench.results import Beside, Figure, Goal
from bench.workers import Run

WARM_UP = 300_000
WORK_TIMEOUT_S = 120
NUMBERS = itertools.count()
GOALS_IN = {100: Beside(1.5, limit=1e6), 1000: Beside(2.0)}
GOALS_OUT = {100: Beside(1.1, limit=1e6), 1000: Beside(1.1)}
"""By the size of records."""
CLIENTS = {
    "minikafka": "minikafka.client",
    "aiokafka": "aiokafka",
    "kafka_python": "kafka-python",
    "confluent": "confluent-kafka",
}
COUNTS = {"minikafka": 1_000_000, "aiokafka": 500_000, "kafka_python": 200_000, "confluent": 1_500_000}


def work(worker: str, **arguments: object) -> Run:
    """Run one of `bench.workers` in a separate process."""
    command = [sys.executable, "-m", "bench.workers", worker, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WORK_TIMEOUT_S)
    if done.returncode:
        raise SystemExit(f"{worker} failed:\n{done.stderr}")
    return Run(**json.loads(done.stdout.splitlines()[-1]))


def fresh_topic(node: Node) -> str:
    topic = f"bench-{next(NUMBERS)}"
    create_topic(node.address, topic)
    return topic


def warm_up(node: Node) -> None:
    """Warm up the JVM, and minikafka's codecs, which are compiled on first use."""
    topic = fresh_topic(node)
    work("produce_confluent", bootstrap=node.bootstrap, topic=topic, count=WARM_UP, size=100)
    work("consume_confluent", bootstrap=node.bootstrap, topic=topic, count=WARM_UP)


def measure_confluent(node: Node, quick: bool) -> Iterator[Figure]:
    """100-byte and 1,000-byte records, acks 1, linger 5 ms.

    Where the client is the limit of the rate *out*, the node's CPU time counts in its place: one of both goals is to be
    met.
    """
    warm_up(node)
    for size, count in ((100, 3_000_000), (1000, 500_000)):
        made, read, cpu_s = in_and_out(node, size, count // 5 if quick else count, 1 if quick else 3)
        into, out = f"confluent-kafka in, {size} B", f"confluent-kafka out, {size} B"
        yield Figure(into, "records/s", GOALS_IN[size], {node.name: made})
        yield Figure(out, "records/s", GOALS_OUT[size], {node.name: read})
        yield Figure(out, "s of CPU for a million", Beside(0.5, at_most=True), {node.name: cpu_s})
        if size == 1000:
            goals = (Goal(300, reference="Kafka 272"), Goal(450, reference="Kafka 293"))
            yield Figure(into, "MB/s", goals[0], {node.name: made * size / 1e6})
            yield Figure(out, "MB/s", goals[1], {node.name: read * size / 1e6})


def in_and_out(node: Node, size: int, count: int, times: int, **client: object) -> tuple[float, float, float]:
    """The median rates, and the node's median CPU time for a million records out.

    Args:
        client: What the client uses instead of the first listener without security.
    """
    made: list[float] = []
    read: list[float] = []
    used_s: list[float] = []
    for _ in range(times):
        where: dict[str, object] = {"bootstrap": node.bootstrap, "topic": fresh_topic(node), "count": count, **client}
        made.append(work("produce_confluent", **where, size=size).rate)
        before = cpu_s(node)
        read.append(work("consume_confluent", **where).rate)
        used_s.append((cpu_s(node) - before) / count * 1e6)
    return median(made), median(read), median(used_s)


def measure_clients(node: Node, quick: bool) -> Iterator[Figure]:
    """100-byte records with each client, acks 1, linger 5 ms, batches of 256 KiB; clients alternate."""
    rounds = [client_rates(node, quick) for _ in range(1 if quick else 3)]
    rates = {title: median(rates[title] for rates in rounds) for title in rounds[0]}
    for title, rate in rates.items():
        rival = title.replace("minikafka.client", "aiokafka")
        goal = Goal(rates[rival], reference="aiokafka in this run") if rival != title and rival in rates else None
        yield Figure(f"{title}, 100 B", "records/s", goal, {node.name: rate})


def client_rates(node: Node, quick: bool) -> dict[str, float]:
    """The rates of each client, in and out, in one round."""
    rates: dict[str, float] = {}
    for client, title in CLIENTS.items():
        count = COUNTS[client] // (10 if quick else 1)
        where: dict[str, object] = {"bootstrap": node.bootstrap, "topic": fresh_topic(node), "count": count}
        rates[f"{title} in"] = work(f"produce_{client}", **where, size=100).rate
        if client == "minikafka":
            many = {**where, "topic": fresh_topic(node), "many": True}
            rates[f"{title} in with send_many"] = work("produce_minikafka", **many, size=100).rate
        rates[f"{title} out"] = work(f"consume_{client}", **where).rate
    return rates
