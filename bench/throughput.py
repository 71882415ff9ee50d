"""Measures records per second, in and out: confluent-kafka, and minikafka's client beside three others."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from statistics import median

from bench.nodes import Node
from bench.raw import create_topic
from bench.results import Figure, Goal
from bench.workers import Run

WARM_UP = 300_000
WORK_TIMEOUT_S = 120
NUMBERS = itertools.count()
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
    """100-byte and 1,000-byte records, acks 1, linger 5 ms."""
    warm_up(node)
    for size, count in ((100, 3_000_000), (1000, 500_000)):
        made, read = in_and_out(node, size, count // 5 if quick else count, 1 if quick else 3)
        yield Figure(
            f"confluent-kafka in, {size} B", "records/s", _goal(size, 1e6, "Kafka 740,000"), {node.name: made}
        )
        yield Figure(
            f"confluent-kafka out, {size} B", "records/s", _goal(size, 1e6, "Kafka 1,100,000"), {node.name: read}
        )
        if size == 1000:
            goals = (Goal(300, reference="Kafka 272"), Goal(450, reference="Kafka 293"))
            yield Figure("confluent-kafka in, 1000 B", "MB/s", goals[0], {node.name: made * size / 1e6})
            yield Figure("confluent-kafka out, 1000 B", "MB/s", goals[1], {node.name: read * size / 1e6})


def _goal(size: int, value: float, reference: str) -> Goal | None:
    return Goal(value, reference=reference) if size == 100 else None


def in_and_out(node: Node, size: int, count: int, times: int) -> tuple[float, float]:
    """The median rates."""
    made: list[float] = []
    read: list[float] = []
    for _ in range(times):
        where: dict[str, object] = {"bootstrap": node.bootstrap, "topic": fresh_topic(node), "count": count}
        made.append(work("produce_confluent", **where, size=size).rate)
        read.append(work("consume_confluent", **where).rate)
    return median(made), median(read)


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
