"""Measures the log cleaner: how fast it cleans a log, and what a producer notices of it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import quantiles

from bench.nodes import Node
from bench.raw import Connection, create_topic
from bench.results import Beside, Figure, Goal
from bench.throughput import work
from minikafka.client.blocking import Admin
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record

MB = 1_000_000
KEYS, VALUE_BYTES, SEGMENT_BYTES = 100_000, 200, 32 << 20
SETTINGS: dict[str, object] = {"log.cleaner.backoff.ms": 100, "log.cleaner.dedupe.buffer.size": 128 << 20}
HELD = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), "min.compaction.lag.ms": str(2**40)}
"""The settings of a log that is not cleaned yet."""
RELEASED = {"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0.01"}
TIMEOUT_S = 300
P99_FACTOR_MAX = 2
NUMBERS = count()


def measure_compaction(kind: type[Node], folder: Path, quick: bool) -> Iterator[Figure]:
    """Logs of 100,000 keys with values of 200 bytes, each key many times; a record at a time, acks 1, meanwhile.

    The time ends when the cleaner has written its checkpoint; the last segment is not cleaned.
    """
    node = kind(folder, SETTINGS)
    with node:
        create_topic(node.address, "idle")
        producer = Producing(node, "idle")
        producer.times_until(time.perf_counter() + 2)
        idle = p99_ms(producer.times_until(time.perf_counter() + (2 if quick else 8)))
        rates: list[float] = []
        busy: list[float] = []
        for _ in range(1 if quick else 3):
            rate, times = cleaned(node, folder, producer, 400_000 if quick else 2_000_000)
            rates.append(rate)
            busy += times
        producer.close()
    yield Figure("cleaned, 200 B, 100,000 keys", "MB/s", Beside(), {kind.name: sorted(rates)[len(rates) // 2]})
    yield Figure("one record at a time, idle node", "ms, p99", None, {kind.name: idle})
    goal = Goal(P99_FACTOR_MAX * idle, at_most=True) if kind is Node else None
    yield Figure("one record at a time, while it cleans", "ms, p99", goal, {kind.name: p99_ms(busy)})


def cleaned(node: Node, folder: Path, producer: Producing, records: int) -> tuple[float, list[float]]:
    """The rate in MB/s of cleaning a new log, and the times of the producer meanwhile."""
    topic = f"compacted-{next(NUMBERS)}"
    create_topic(node.address, topic, HELD)
    work("produce_keyed", bootstrap=node.bootstrap, topic=topic, count=records, size=VALUE_BYTES, keys=KEYS)
    segments = sorted(next(folder.rglob(f"{topic}-0")).glob("*.log"))
    size_bytes = sum(one.stat().st_size for one in segments[:-1])
    first_dirty = int(segments[-1].stem)
    time.sleep(1)
    with Admin(node.bootstrap) as admin:
        admin.alter_configs("topic", topic, set=RELEASED)
        began = time.perf_counter()
        times: list[float] = []
        while cleaned_up_to(folder, topic) < first_dirty:
            if time.perf_counter() > began + TIMEOUT_S:
                raise SystemExit(f"{topic} was not cleaned")
            times += producer.times_until(time.perf_counter() + 0.02)
        return size_bytes / MB / (time.perf_counter() - began), times


def cleaned_up_to(folder: Path, topic: str) -> int:
    """The first offset that is not cleaned, from the cleaner's checkpoint."""
    for path in folder.rglob("cleaner-offset-checkpoint"):
        for line in path.read_text().splitlines():
            if line.startswith(f"{topic} 0 "):
                return int(line.split()[2])
    return 0


class Producing:
    """A connection that produces one record of 100 bytes at a time."""

    def __init__(self, node: Node, topic: str) -> None:
        batch = encode_batch([Record(0, 1_700_000_000_000, None, bytes(100), ())])
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        self._request = encode_request(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), 9, 1, "bench")
        self._connection = Connection(node.address)

    def times_until(self, end: float) -> list[float]:
        """The durations in seconds of the requests until then."""
        times: list[float] = []
        while (began := time.perf_counter()) < end:
            self._connection.exchange(self._request)
            times.append(time.perf_counter() - began)
        return times

    def close(self) -> None:
        self._connection.close()


def p99_ms(times: list[float]) -> float:
    return quantiles(times, n=100)[98] * 1000
