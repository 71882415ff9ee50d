"""Measures clusters of three nodes: startup, replicated writes, failover, many partitions; and catching up."""

from __future__ import annotations

import itertools
import os
import re
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.nodes import KAFKA, KafkaNode, Node
from bench.results import Beside, Figure, Goal
from bench.throughput import work
from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin
from minikafka.protocol.errors import UnknownTopicOrPartitionError

PARTITIONS_PER_TOPIC = 500
CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
TIMEOUT_S = 120
IDLE_S = 10
SETTLE_S = 15
"""How long background work after a start, or after the creation of thousands of logs, may take."""
NUMBERS = itertools.count()
RECORD_BYTES = 1000
SAFE: dict[str, object] = {"min.insync.replicas": 2, "default.replication.factor": 3}


class KafkaCluster(LocalCluster):
    """Apache Kafka, with its default timeouts (KAFKA_TIMEOUTS)."""

    READY = re.compile(rb"Kafka Server started")

    def command(self, node_id: int) -> list[str]:
        return [sys.executable, str(KAFKA), "server", "--config", str(self.config(node_id)), "--heap", "400m"]


KAFKA_TIMEOUTS: dict[str, object] = {
    "broker.heartbeat.interval.ms": 2000,
    "broker.session.timeout.ms": 9000,
    "controller.quorum.election.timeout.ms": 1000,
    "controller.quorum.fetch.timeout.ms": 2000,
    "replica.lag.time.max.ms": 30_000,
}


def cluster_of(kind: type[Node], folder: Path, brokers: int = 3) -> LocalCluster:
    """A cluster, not started."""
    if kind is KafkaNode:
        return KafkaCluster(folder, brokers=brokers, settings={**KAFKA_TIMEOUTS, **SAFE})
    return LocalCluster(folder, brokers=brokers, settings=SAFE)


def measure_cluster(kind: type[Node], folder: Path, quick: bool) -> Iterator[Figure]:
    """All figures for one kind of node; fewer rounds and partitions for Apache Kafka, which takes longer."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each node compiles all sources
    yield from starting(kind, folder, 1 if quick or kind is KafkaNode else 3)
    with running(cluster_of(kind, folder / "three")) as cluster:
        time.sleep(SETTLE_S)
        goal = Goal(5, at_most=True)
        yield Figure("no topics, idle, all three nodes", "% of a core", goal, {kind.name: idle_percent(cluster)})
        yield from producing(kind.name, cluster, quick)
        yield from losing_leaders(kind.name, cluster, 3 if quick or kind is KafkaNode else 10)
    for count in (1000,) if quick or kind is KafkaNode else (1000, 5000):
        with running(cluster_of(kind, folder / f"partitions-{count}")) as cluster:
            yield from many_partitions(kind.name, cluster, count)


def measure_catching_up(kind: type[Node], folder: Path, quick: bool) -> Iterator[Figure]:
    """A cluster of its own."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each node compiles all sources
    with running(cluster_of(kind, folder / "three")) as cluster:
        time.sleep(SETTLE_S)
        yield from catching_up(kind.name, cluster, 50_000 if quick else 600_000)


@contextmanager
def running(cluster: LocalCluster) -> Iterator[LocalCluster]:
    """Start a cluster, and kill its processes at the end of the block."""
    try:
        yield cluster.start(timeout_s=TIMEOUT_S)
    finally:
        cluster.kill()


def seconds(call: Callable[[], object]) -> float:
    """The duration of a call in seconds."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def starting(kind: type[Node], folder: Path, times: int) -> Iterator[Figure]:
    """Time from the start of the processes, in new folders, until all are ready."""
    for brokers in (1, 3):
        spent: list[float] = []
        for number in range(times):
            cluster = cluster_of(kind, folder / f"start-{brokers}-{number}", brokers)
            try:
                spent.append(seconds(cluster.start))
            finally:
                cluster.kill()
        goal = Goal(2.0, at_most=True, reference="Kafka 8.3") if brokers == 3 else None
        nodes = "three nodes" if brokers == 3 else "one node with a quorum"
        yield Figure(f"{nodes} ready, new folders", "s", goal, {kind.name: statistics.median(spent)})


def producing(name: str, cluster: LocalCluster, quick: bool) -> Iterator[Figure]:
    """confluent-kafka with acks=all and one partition with three replicas: one record at a time, then at full rate.

    One record at a time comes first, while the kernel has no dirty pages to write back.
    """
    rounds = [one_at_a_time(cluster, 500 if quick else 3000) for _ in range(1 if quick else 3)]
    rate = statistics.median(len(times) / sum(times) for times in rounds)
    p50_ms = statistics.median(statistics.median(times) for times in rounds) * 1000
    goal = Goal(600, reference="Kafka 470")
    yield Figure("one record at a time, three replicas, acks all", "records/s", goal, {name: rate})
    yield Figure("one at a time, three replicas, p50", "ms", None, {name: p50_ms})
    for size, count, goal in (
        (1000, 200_000, Goal(60, reference="Kafka 46")),
        (100, 1_000_000, Goal(300_000, reference="Kafka 254,000")),
    ):
        rates = [produced(cluster, count // 5 if quick else count, size) for _ in range(1 if quick else 3)]
        rate = statistics.median(rates)
        unit, value = ("MB/s", rate * size / 1e6) if size == 1000 else ("records/s", rate)
        yield Figure(f"confluent-kafka in, three replicas, acks all, {size} B", unit, goal, {name: value})


def produced(cluster: LocalCluster, count: int, size: int) -> float:
    """Records per second."""
    topic = new_topic(cluster)
    return work("produce_confluent", bootstrap=cluster.bootstrap, topic=topic, count=count, size=size, acks="all").rate


def new_topic(cluster: LocalCluster, partitions: int = 1) -> str:
    """Create a topic with three replicas and wait until all are in sync."""
    name = f"bench-{next(NUMBERS)}"
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=partitions, replication_factor=3)
    cluster.wait_in_sync(TIMEOUT_S)
    return name


def leader_of(cluster: LocalCluster, topic: str) -> int:
    """The leader of a topic's first partition; a broker that has just started may not know it yet."""
    deadline = time.monotonic() + TIMEOUT_S
    with Admin(cluster.bootstrap) as admin:
        while True:
            try:
                return admin.describe_topic(topic).partitions[0].leader
            except UnknownTopicOrPartitionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


class Stream:
    """A producer that sends each record after the acknowledgement of the previous one, and records the times."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[float] = []
        self._topic = topic
        self._producer: Any = import_module("confluent_kafka").Producer({
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "retry.backoff.ms": 50,
            "retry.backoff.max.ms": 100,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.fast.interval.ms": 50,
            "log_level": 0,
        })
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Stream:
        self._thread.start()
        self.until_acknowledged(time.perf_counter())
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def until_acknowledged(self, since: float) -> None:
        """Wait for an acknowledgement after a given time of the performance counter."""
        deadline = time.perf_counter() + TIMEOUT_S
        while not self.acknowledged or self.acknowledged[-1] <= since:
            if time.perf_counter() > deadline:
                raise SystemExit(f"no acknowledgement within {TIMEOUT_S} s")
            time.sleep(0.005)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._producer.produce(self._topic, bytes(100), on_delivery=self._delivered)
            self._producer.flush(TIMEOUT_S)

    def _delivered(self, error: object, _: object) -> None:
        if error is None:
            self.acknowledged.append(time.perf_counter())


def one_at_a_time(cluster: LocalCluster, count: int) -> list[float]:
    """Seconds between consecutive acknowledgements."""
    with Stream(cluster.bootstrap, new_topic(cluster)) as stream:
        while len(stream.acknowledged) < count:
            time.sleep(0.05)
    times = [after - before for before, after in itertools.pairwise(stream.acknowledged)]
    return times[len(times) // 4 :]


def losing_leaders(name: str, cluster: LocalCluster, rounds: int) -> Iterator[Figure]:
    """The longest time without an acknowledgement after the leader is killed, in several rounds."""
    topic = new_topic(cluster)
    gaps: list[float] = []
    for _ in range(rounds):
        leader = leader_of(cluster, topic)
        with Stream(cluster.bootstrap, topic) as stream:
            time.sleep(1)
            cluster.kill(leader)
            stream.until_acknowledged(time.perf_counter() + 0.2)
        gaps.append(max(after - before for before, after in itertools.pairwise(stream.acknowledged)))
        cluster.start(leader, timeout_s=TIMEOUT_S)
        cluster.wait_in_sync(TIMEOUT_S)
    median, worst = Goal(1.5, at_most=True, reference="Kafka 12"), Goal(3, at_most=True)
    yield Figure("kill -9 of a leader, gap between acknowledgements, median", "s", median, {
        name: statistics.median(gaps)
    })
    yield Figure("kill -9 of a leader, gap between acknowledgements, worst", "s", worst, {name: max(gaps)})


def catching_up(name: str, cluster: LocalCluster, count: int) -> Iterator[Figure]:
    """A restarted follower fetches missed records of 1,000 bytes.

    Few and many are missed, and the difference in time counts: how long a node takes to start, and how much it fetches
    before it says that it is ready, differs between the nodes.
    """
    few, many = caught_up_s(cluster, count // 10), caught_up_s(cluster, count + count // 10)
    yield Figure("a follower catches up", "MB/s", Beside(), {name: count * RECORD_BYTES / 1e6 / (many - few)})


def caught_up_s(cluster: LocalCluster, count: int) -> float:
    """Seconds from the start of a follower until it has fetched `count` missed records."""
    topic = new_topic(cluster)
    leader = leader_of(cluster, topic)
    follower = next(node_id for node_id in cluster.broker_ids if node_id != leader)
    cluster.stop(follower)
    arguments = {"bootstrap": cluster.bootstrap, "topic": topic, "count": count, "size": RECORD_BYTES, "acks": "all"}
    work("produce_confluent", **arguments)

    def restart() -> None:
        cluster.start(follower, timeout_s=TIMEOUT_S)
        cluster.wait_in_sync(TIMEOUT_S)

    return seconds(restart)


def many_partitions(name: str, cluster: LocalCluster, count: int) -> Iterator[Figure]:
    """A cluster with many partitions of three replicas: creation, idle load, failover, restart."""
    goal = Goal(10, at_most=True) if count == 5000 else None
    yield Figure(f"{count:,} partitions created", "s", goal, {name: seconds(lambda: fill(cluster, count))})
    time.sleep(SETTLE_S)
    idle = Goal(5, at_most=True) if count == 1000 else None
    yield Figure(f"{count:,} partitions, idle, all three nodes", "% of a core", idle, {name: idle_percent(cluster)})
    cluster.kill(cluster.broker_ids[-1])
    spent = seconds(lambda: wait_for_leaders(cluster))
    yield Figure(f"{count:,} partitions, all led again after kill -9", "s", None, {name: spent})

    def restart() -> None:
        cluster.start(cluster.broker_ids[-1], timeout_s=TIMEOUT_S)
        cluster.wait_in_sync(TIMEOUT_S)

    yield Figure(f"{count:,} partitions, back and in sync", "s", None, {name: seconds(restart)})


def fill(cluster: LocalCluster, count: int) -> None:
    """Create topics with PARTITIONS_PER_TOPIC partitions, and wait until all have a leader."""
    with Admin(cluster.bootstrap, request_timeout_ms=TIMEOUT_S * 1000) as admin:
        for _ in range(count // PARTITIONS_PER_TOPIC):
            admin.create_topic(
                f"bench-{next(NUMBERS)}", partitions=PARTITIONS_PER_TOPIC, replication_factor=3
            )
    wait_for_leaders(cluster)


def wait_for_leaders(cluster: LocalCluster) -> None:
    """Wait until the leader of every partition is a running node."""
    alive = {node_id for node_id in cluster.broker_ids if cluster.running(node_id)}
    addresses = ",".join(map(cluster.address, sorted(alive)))
    deadline = time.monotonic() + TIMEOUT_S
    with Admin(addresses) as admin:
        while any(
            partition.leader not in alive
            for topic in admin.describe_topics(None).values()
            for partition in getattr(topic, "partitions", ())
        ):
            if time.monotonic() > deadline:
                raise SystemExit(f"partitions without a leader after {TIMEOUT_S} s")
            time.sleep(0.05)


def idle_percent(cluster: LocalCluster) -> float:
    """CPU usage of all idle nodes, in % of a core."""
    before, began = cpu_seconds(cluster), time.perf_counter()
    time.sleep(IDLE_S)
    return 100 * (cpu_seconds(cluster) - before) / (time.perf_counter() - began)


def cpu_seconds(cluster: LocalCluster) -> float:
    """Total user and system time of all nodes."""
    ticks = 0
    for node_id in cluster.node_ids:
        fields = Path(f"/proc/{cluster.pid(node_id)}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / CLOCK_TICKS_PER_SECOND
