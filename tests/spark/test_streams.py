"""Streams with each source from each broker: the same micro-batches, and interchangeable checkpoints.

Queries run one at a time: Spark gives the Python process of a new stream ten seconds to start.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.oracle import SHARED, why_absent
from support.spark_brokers import DEALS, TOPICS, Broker, create, golden_topics, produce
from support.spark_logs import Row, ordered, rows_of, without_headers

from minikafka.spark_connector import lag

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
WAYS = (
    ["minikafka", "kafka"] if not why_absent() and (SHARED / "apache-kafka" / "spark-jars").exists() else ["minikafka"]
)
STREAMS = {
    "trio,codecs": 85,
    **({"transactions,compacted,records-deleted": 1100} if golden_topics() else {}),
    **({} if why_absent() else {"deals": 25}),
}
"""Topics and their maxOffsetsPerTrigger."""


class Run(NamedTuple):
    """A query's schema, the rows of each batch, each batch's (start, end) offsets, and the last progress."""

    schema: str
    batches: dict[int, list[Row]]
    offsets: list[tuple[Any, Any]]
    last: Any

    @property
    def rows(self) -> list[Row]:
        return ordered(row for batch in self.batches.values() for row in batch)


class Interrupted(Exception):
    """Raised to interrupt a query within a batch."""


class Query:
    """A query of all available records in micro-batches; with `until`, this batch fails after it was planned."""

    def __init__(
        self, spark: Any, way: str, broker: Broker, folder: Path, *, until: int | None = None, **options: Any
    ) -> None:
        kafka = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.wait.ms": "20",
        }
        frame = spark.readStream.format(way).options(**kafka, startingOffsets="earliest", **options).load()
        self.schema = frame.schema.simpleString()
        self.batches: dict[int, list[Row]] = {}
        self.until = until
        writer = frame.writeStream.foreachBatch(self.keep).option("checkpointLocation", str(folder))
        self.writer = writer.trigger(availableNow=True)
        self.query = self.writer.start()

    def keep(self, batch: Any, number: int) -> None:
        if number == self.until:
            raise Interrupted
        self.batches[number] = rows_of(batch)

    def end(self) -> Run:
        failed = self.wait()
        while failed is not None and "Python worker failed to connect back" in failed:
            self.query = self.writer.start()  # on a machine so busy that Python takes ten seconds to start
            failed = self.wait()
        assert (failed is None) == (self.until is None), failed
        assert failed is None or "Interrupted" in failed, failed
        progress = [one for one in self.query.recentProgress if one["batchId"] in self.batches]
        places = [one["sources"][0] for one in progress]
        offsets = [(loaded(one["startOffset"]), loaded(one["endOffset"])) for one in places]
        return Run(self.schema, self.batches, offsets, progress[-1] if progress else None)

    def wait(self) -> str | None:
        """Waits for the query to end; returns its error."""
        from pyspark.errors import StreamingQueryException

        try:
            self.query.awaitTermination()
        except StreamingQueryException as error:
            return str(error)
        return None


def loaded(offset: str | None) -> Any:
    return json.loads(offset) if offset else None


def expected(broker: Broker, topics: str) -> list[Row]:
    rows: list[Row] = []
    for topic, partition in partitions(topics):
        log = broker.log(topic, partition)
        rows += log.rows(topic, partition, log.start, log.stable_end, committed=True)
    return ordered(without_headers(rows))


def partitions(topics: str) -> list[tuple[str, int]]:
    counts = {**TOPICS, **DEALS}
    return [(topic, number) for topic in topics.split(",") for number in range(counts.get(topic, 1))]


@pytest.mark.parametrize("topics", STREAMS)
def test_every_source_and_broker_gives_the_same_micro_batches(
    spark: Any, brokers: list[Broker], tmp_path: Path, topics: str
) -> None:
    options = {"subscribe": topics, "maxOffsetsPerTrigger": STREAMS[topics]}
    runs = [
        Query(spark, way, broker, tmp_path / f"{number}-{way}", **options).end()
        for number, broker in enumerate(brokers)
        for way in WAYS
    ]
    assert [one.rows for one in runs] == [expected(broker, topics) for broker in brokers for _ in WAYS]
    assert {one.schema for one in runs} == {runs[0].schema}
    assert all(one.offsets == runs[0].offsets for one in runs)
    assert len(runs[0].offsets) >= 3
    last = runs[0].offsets[-1][1]
    ends = {(topic, number): last[topic][str(number)] for topic, number in partitions(topics)}
    assert ends == {place: brokers[0].log(*place).stable_end for place in partitions(topics)}
    behind = lag(runs[0].last)
    assert behind is not None
    assert behind.total == 0


@pytest.mark.skipif(len(WAYS) < 2, reason="no JVM connector beside the checkout")
@pytest.mark.parametrize("first", [0, 1], ids=["minikafka-first", "kafka-first"])
def test_a_checkpoint_is_continued_by_the_other_source(
    spark: Any, brokers: list[Broker], tmp_path: Path, first: int
) -> None:
    """One source fails in batch 2 after it was planned: the other repeats that batch and continues."""
    begins, goes_on = WAYS[first], WAYS[1 - first]
    options = {"subscribe": "trio", "maxOffsetsPerTrigger": 15}
    places = [(tmp_path / broker.name, broker) for broker in brokers]
    whole = [Query(spark, goes_on, broker, folder / "whole", **options).end() for folder, broker in places]
    begun = [Query(spark, begins, broker, folder / "cut", until=2, **options).end() for folder, broker in places]
    ended = [Query(spark, goes_on, broker, folder / "cut", **options).end() for folder, broker in places]
    for one, before, after, broker in zip(whole, begun, ended, brokers, strict=True):
        assert sorted(before.batches) == [0, 1]
        assert min(after.batches) == 2
        assert _by_partition(before.batches | after.batches) == _by_partition(one.batches)
        assert ordered(before.rows + after.rows) == expected(broker, "trio")


def _by_partition(batches: dict[int, list[Row]]) -> dict[int, list[Row]]:
    return {number: ordered(rows) for number, rows in batches.items()}


@pytest.mark.skipif(len(WAYS) < 2, reason="no JVM connector beside the checkout")
def test_sources_take_turns_while_records_arrive(spark: Any, brokers: list[Broker], tmp_path: Path) -> None:
    for broker in brokers:
        create(broker.bootstrap, {"handed": 1})
        read: list[list[Any]] = []
        for turn, way in enumerate(["minikafka", "kafka", "minikafka"]):
            produce(broker.bootstrap, "handed", [{"value": b"%d" % turn}] * 3)
            found = Query(spark, way, broker, tmp_path / broker.name, subscribe="handed").end()
            read.append([(row[4], row[1]) for row in found.rows])
        assert read == [[(3 * turn + one, b"%d" % turn) for one in range(3)] for turn in range(3)]
