"""Measures the PySpark source: rows per second of batch reads, latency of micro-batches, requests of an idle stream.

Spark's own Kafka source is measured as well if its jars are beside the checkout. Spark (`local[2]`) shares the cores
with the node; it starts once for all nodes.
"""

from __future__ import annotations

import functools
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.nodes import CHECKOUT, Node
from bench.raw import Connection, create_topic
from bench.results import Figure, Goal
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.records.batch import BatchHeader, encode_batch
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.record import Headers, Record
from minikafka.spark_connector import register
from minikafka.spark_connector.brokers.offset_reader import offset_reader_for
from minikafka.spark_connector.options.source_options import parse
from minikafka.spark_connector.source.micro_batches import StreamPosition
from minikafka.spark_connector.source.offset_resolution import batch_ranges
from minikafka.spark_connector.source.partition_reader import read

JARS = CHECKOUT.parent / "shared" / "apache-kafka" / "spark-jars"
PRODUCE_VERSION = 9
TOPICS = 2
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
READS = 3
MICRO_BATCHES = 30
PIPELINED_REQUESTS = 50


class Shape(NamedTuple):
    """A kind of records to read."""

    name: str
    value_bytes: int = 100
    batch_records: int = 1000
    codec: Codec = Codec.NONE
    headers: Headers = ()
    share: float = 1.0


SHAPES = [
    Shape("100 B, batches of 1,000"),
    Shape("100 B, batches of 10", batch_records=10, share=0.25),
    Shape("100 B, batches of 1", batch_records=1, share=0.05),
    Shape("100 B, zstd", codec=Codec.ZSTD, share=0.5),
    Shape("100 B, two headers", headers=(("source", b"bench"), ("number", b"12345")), share=0.4),
    Shape("1 KB, batches of 1,000", value_bytes=1000, share=0.25),
]


def measure_spark(node: Node, quick: bool) -> Iterator[Figure]:
    """All figures for one node; none without Java."""
    if not shutil.which("java"):
        return
    spark = session()
    for shape in SHAPES:
        count = int((200_000 if quick else 2_000_000) * shape.share)
        topics = fill(node, shape, count)
        options = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": topics}
        if shape.headers:
            options["includeHeaders"] = "true"
        spent = warm(lambda o=options: decode(o))
        yield from figures(node, f"one core, no Spark: {shape.name}", count, shape, spent)
        yield from both_sources(spark, node, shape, count, options)
    for source in formats():
        name = f"micro-batch, {'ours' if source == 'minikafka' else 'its own source'}"
        median = micro_batches(spark, node, source, 10 if quick else MICRO_BATCHES)
        yield Figure(name, "ms, median", Goal(250, at_most=True), {node.name: median})
    yield Figure("idle stream", "requests/s", Goal(8, at_most=True), {node.name: idle_requests(node)})


def both_sources(spark: Any, node: Node, shape: Shape, count: int, options: dict[str, str]) -> Iterator[Figure]:
    """A batch read with minikafka's source and with Spark's own, in turns, and the ratio of their rates."""
    spent: dict[str, float] = {}
    for number in range(READS + 1):
        for source in formats():
            seconds = timed(lambda f=source: scan(spark, f, options))
            if number:  # the first reads warm up
                spent[source] = min(seconds, spent.get(source, seconds))
    for source, seconds in spent.items():
        name = f"Spark batch, {'ours' if source == 'minikafka' else 'its own source'}: {shape.name}"
        yield from figures(node, name, count, shape, seconds)
    if len(spent) > 1:
        times = spent["kafka"] / spent["minikafka"]
        goal = Goal(2.0 if shape.value_bytes >= 1000 else 3.0)
        yield Figure(f"Spark batch, ours beside its own source: {shape.name}", "times", goal, {node.name: times})


def warm(once: Any) -> float:
    """The shortest of some times in seconds, after one that does not count."""
    once()
    return min(timed(once) for _ in range(READS))


def figures(node: Node, name: str, count: int, shape: Shape, spent: float) -> Iterator[Figure]:
    goal = Goal(2.0) if name.startswith("one core") and shape == SHAPES[0] else None
    yield Figure(name, "million rows/s", goal, {node.name: count / spent / 1e6})
    yield Figure(name, "MB/s", None, {node.name: count * shape.value_bytes / spent / 1e6})


def timed(once: Any) -> float:
    began = time.perf_counter()
    once()
    return time.perf_counter() - began


def formats() -> list[str]:
    return ["minikafka", "kafka"] if JARS.exists() else ["minikafka"]


@functools.cache
def session() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.unix.domain.socket.enabled": "true",  # see docs/spark.md, Latency
    }
    if JARS.exists():
        settings["spark.jars"] = ",".join(map(str, sorted(JARS.glob("*.jar"))))
    spark = SparkSession.builder.master("local[2]").appName("bench").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    return spark


def fill(node: Node, shape: Shape, count: int) -> str:
    """Create two topics with one partition each, and write half of the records to each."""
    value = os.urandom(shape.value_bytes // 2).hex().encode()
    records = [Record(-1, 1_700_000_000_000 + n, b"%08d" % n, value, shape.headers) for n in range(shape.batch_records)]
    batch = encode_batch(records, BatchHeader(shape.codec))
    names = [f"{shape.name.replace(' ', '-').replace(',', '')}-{number}" for number in range(TOPICS)]
    for name in names:
        create_topic(node.address, name, {"retention.ms": "-1"})
        append(node, name, batch, count // TOPICS // shape.batch_records)
    return ",".join(names)


def append(node: Node, topic: str, batch: bytes, count: int) -> None:
    """Append a batch `count` times; a request may hold one batch only."""
    connection = Connection(node.address)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    message = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data])
    request = encode_request(message, PRODUCE_VERSION, 1, "bench")
    while count > 0:
        together = min(count, PIPELINED_REQUESTS if len(batch) < 10_000 else 1)
        count -= together
        connection.socket.sendall(request * together)
        for _ in range(together):
            size = int.from_bytes(connection.receive(4), "big")
            answer = decode_response(ProduceResponse, PRODUCE_VERSION, connection.receive(size))[1]
            if answer.responses[0].partition_responses[0].error_code:
                raise SystemExit(f"{topic}: not appended")
    connection.close()


def decode(given: dict[str, str]) -> None:
    """Fetch and decode everything, one partition after the other, in this process."""
    options = parse(given)
    columns = (*COLUMNS, "headers") if options.include_headers else COLUMNS
    for one in batch_ranges(offset_reader_for(options.kafka), options):
        for _ in read(options, one, columns):
            pass


def scan(spark: Any, source: str, given: dict[str, str]) -> None:
    spark.read.format(source).options(**given).load().write.format("noop").mode("overwrite").save()


def micro_batches(spark: Any, node: Node, source: str, count: int) -> float:
    """The median time from trigger to commit in ms, with a hundred records per batch.

    Progress is read only at the end, as this takes longer than a micro-batch.
    """
    topic = f"micro-{source}"
    create_topic(node.address, topic)
    batch = encode_batch([Record(-1, 1_700_000_000_000, None, b"x" * 100)] * 100)
    options = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    with tempfile.TemporaryDirectory(prefix="minikafka-bench-") as folder:
        writer = spark.readStream.format(source).options(**options).load().writeStream.format("noop")
        query = writer.option("checkpointLocation", str(Path(folder) / "checkpoint")).start()
        for _ in range(count):
            append(node, topic, batch, 1)
            query.processAllAvailable()
        query.stop()
        spent = [one["durationMs"]["triggerExecution"] for one in query.recentProgress if one["numInputRows"]]
    return statistics.median(spent[len(spent) // 4 :])


def idle_requests(node: Node, seconds: float = 5.0) -> float:
    """Requests per second of a stream without new records, polled as often as Spark does."""
    create_topic(node.address, "idle")
    options = parse({"kafka.bootstrap.servers": node.bootstrap, "subscribe": "idle"})
    position, reader = StreamPosition(options), offset_reader_for(options.kafka)
    offset, before, began = position.initial(), reader.request_count, time.perf_counter()
    while time.perf_counter() - began < seconds:
        position.next(offset, everything=False)
        position.reported()
        time.sleep(0.01)
    return (reader.request_count - before) / (time.perf_counter() - began)
