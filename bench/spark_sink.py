"""Measures the PySpark sink beside Spark's own: rows per second of batch writes, micro-batches from topic to topic.

All ways to write take turns in one run, so that their ratios hold on a machine that is busy with other things.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.nodes import Node
from bench.raw import create_topic, delete_topic
from bench.results import Figure, Goal
from bench.spark import append, formats, session
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record

ITS_OWN = "its own sink"
DELIVERIES = ("at_least_once", "exactly_once", "atomic")
GOALS = {"at_least_once": Goal(4.0), "exactly_once": Goal(3.0)}
ROUNDS = 3
PARTITIONS = 2
ROWS = {100: 1_000_000, 1000: 200_000}
"""The rows of a write by the bytes of their values."""
LATENCY_ROWS = 100
MICRO_BATCH_GOAL_MS = 300


def measure_sink(node: Node, quick: bool) -> Iterator[Figure]:
    """All figures for one node; none without Java."""
    if not shutil.which("java"):
        return
    spark = session()
    for value_bytes, rows in ROWS.items():
        yield from writes(spark, node, value_bytes, rows // 10 if quick else rows)
    for delivery in DELIVERIES:
        goal = Goal(MICRO_BATCH_GOAL_MS, at_most=True) if delivery == "exactly_once" else None
        median = copied_micro_batches(spark, node, delivery, 10 if quick else 30)
        yield Figure(f"micro-batch from topic to topic, {delivery}", "ms, median", goal, {node.name: median})


def writes(spark: Any, node: Node, value_bytes: int, rows: int) -> Iterator[Figure]:
    """The rates of all ways to write rows of one size, and their ratios."""
    ways = [*DELIVERIES, *([ITS_OWN] if len(formats()) > 1 else [])]
    shape = f"{value_bytes} B" if value_bytes < 1000 else f"{value_bytes // 1000} KB"
    spent: dict[str, float] = {}
    for number in range(ROUNDS + 1):
        for way in ways:
            seconds = timed_write(spark, node, way, value_bytes, rows)
            if number:  # the first round warms up
                spent[way] = min(seconds, spent.get(way, seconds))
    for way in ways:
        yield Figure(f"Spark write, {way}: {shape}", "million rows/s", None, {node.name: rows / spent[way] / 1e6})
        if way != ITS_OWN and ITS_OWN in spent:
            times = {node.name: spent[ITS_OWN] / spent[way]}
            yield Figure(f"Spark write, {way} beside {ITS_OWN}: {shape}", "times", GOALS.get(way), times)


def timed_write(spark: Any, node: Node, way: str, value_bytes: int, rows: int) -> float:
    """Seconds of a write to a new topic; its rows are made from their numbers."""
    topic = f"write-{way.replace(' ', '-')}-{time.monotonic_ns()}"
    create_topic(node.address, topic, partitions=PARTITIONS)
    value = f"rpad(cast(id as string), {value_bytes}, 'The value of a row is text of a certain size. ') value"
    frame = spark.range(0, rows, 1, PARTITIONS).selectExpr("lpad(cast(id as string), 8, '0') key", value)
    options = {"kafka.bootstrap.servers": node.bootstrap, "topic": topic}
    source = "kafka"
    if way != ITS_OWN:
        source = "minikafka"
        options |= {"delivery": way, "atomicBytesMax": str(1 << 30)}
    began = time.perf_counter()
    frame.write.format(source).mode("append").options(**options).save()
    seconds = time.perf_counter() - began
    delete_topic(node.address, topic)
    return seconds


def copied_micro_batches(spark: Any, node: Node, delivery: str, count: int) -> float:
    """The median time from trigger to commit in ms of a stream from topic to topic, a hundred records per batch."""
    names = [f"copied-{delivery}-{end}" for end in ("from", "to")]
    for name in names:
        create_topic(node.address, name)
    batch = encode_batch([Record(-1, 1_700_000_000_000, None, b"x" * 100)] * LATENCY_ROWS)
    options = {"kafka.bootstrap.servers": node.bootstrap}
    source = spark.readStream.format("minikafka").options(**options, subscribe=names[0], startingOffsets="earliest")
    with tempfile.TemporaryDirectory(prefix="minikafka-bench-") as folder:
        writer = source.load().select("key", "value").writeStream.format("minikafka")
        writer = writer.options(**options, topic=names[1], delivery=delivery)
        query = writer.option("checkpointLocation", str(Path(folder) / "checkpoint")).start()
        for _ in range(count):
            append(node, names[0], batch, 1)
            query.processAllAvailable()
        query.stop()
        spent = [one["durationMs"]["triggerExecution"] for one in query.recentProgress if one["numInputRows"]]
    return statistics.median(spent[len(spent) // 4 :])
