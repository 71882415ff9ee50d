"""A query returns the rows that a simple reader finds in the log, with each source from each broker.

Each case consists of options and, independently, the offsets that they select. It is read by our source from minikafka;
if Apache Kafka and Spark's own connector were found, by both sources from both brokers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.oracle import SHARED, why_absent
from support.spark_brokers import DEALS, FIRST_TIME, TOPICS, Broker, golden_topics
from support.spark_logs import Row, ordered, rows_of, without_headers

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
HAS_JVM_CONNECTOR = (SHARED / "apache-kafka" / "spark-jars").exists()
Bound = int | str | tuple[str, int]


@dataclass(frozen=True)
class Case:
    """Options and, for each partition, the selected start and end: an offset, "start", "end", or ("time", ms)."""

    name: str
    options: dict[str, str]
    bounds: dict[tuple[str, int], tuple[Bound, Bound]]
    committed: bool = True
    known: dict[str, Any] = field(default_factory=dict)

    def expected(self, broker: Broker) -> list[Row]:
        rows: list[Row] = []
        for (topic, partition), (low, high) in self.bounds.items():
            log = broker.log(topic, partition)
            end = log.stable_end if self.committed else log.end
            marks: dict[Any, int] = {"start": log.start, "end": end}
            first, last = (
                log.at_time(mark[1], end) if isinstance(mark, tuple) else marks.get(mark, mark)
                for mark in (low, high)
            )
            rows += log.rows(topic, partition, first or 0, end if last is None else int(last), committed=self.committed)
        return ordered(rows if self.options.get("includeHeaders") == "true" else without_headers(rows))


def whole(*topics: str) -> dict[tuple[str, int], tuple[Bound, Bound]]:
    counts = {**TOPICS, **DEALS}
    return {(topic, partition): ("start", "end") for topic in topics for partition in range(counts.get(topic, 1))}


def golden_cases() -> Iterator[Case]:
    """Cases on recorded data directories of Kafka: codecs, transactions, compaction, deleted records."""
    for topic, start in golden_topics().items():
        subscribe = {"subscribe": topic}
        headers = {**subscribe, "includeHeaders": "true"}
        dirty = {**headers, "kafka.isolation.level": "read_uncommitted"}
        yield Case(f"{topic}: all", subscribe, whole(topic))
        yield Case(f"{topic}: with headers", headers, whole(topic))
        yield Case(f"{topic}: uncommitted", dirty, whole(topic), committed=False)
        low, high = start + 3, start + 17
        offsets = {
            "startingOffsets": json.dumps({topic: {"0": low}}), "endingOffsets": json.dumps({topic: {"0": high}})
        }  # fmt: skip
        yield Case(f"{topic}: in mid-batch", headers | offsets, {(topic, 0): (low, high)})
        pieces = {"minPartitions": "5", "maxRecordsPerPartition": "40"} if topic != "rolled" else {"minPartitions": "5"}
        yield Case(f"{topic}: in pieces", subscribe | pieces, whole(topic))


def own_cases() -> Iterator[Case]:
    trio, times = {"subscribe": "trio"}, {"subscribe": "times"}
    yield Case("all", trio, whole("trio"))
    yield Case("headers", {**trio, "includeHeaders": "true"}, whole("trio"))
    yield Case("two topics", {"subscribe": "trio, times"}, whole("trio", "times"))
    yield Case("by pattern", {"subscribePattern": "^tr.o|^ti.*s$"}, whole("trio", "times"))
    yield Case("a pattern may be found within the name", {"subscribePattern": "ri"}, whole("trio"))
    yield Case("a pattern that finds nothing", {"subscribePattern": "^ri"}, {})
    yield Case("assigned", {"assign": '{"trio":[1,2],"times":[0]}'}, {
        ("trio", 1): ("start", "end"), ("trio", 2): ("start", "end"), ("times", 0): ("start", "end")
    })  # fmt: skip
    yield Case("assigned, one of them missing", {"assign": '{"trio":[0,9]}'}, {("trio", 0): ("start", "end")})
    for pieces in (1, 7):
        yield Case(f"in {pieces} pieces", {**trio, "minPartitions": str(pieces)}, whole("trio"))
        yield Case(f"pieces of {pieces}", {**trio, "maxRecordsPerPartition": str(pieces)}, whole("trio"))
    for codec in range(5):
        assigned = {"assign": json.dumps({"codecs": [codec]}), "includeHeaders": "true"}
        yield Case(f"codec {codec}", assigned, {("codecs", codec): ("start", "end")})
    yield from offset_cases(trio)
    yield from time_cases(times)


def offset_cases(trio: dict[str, str]) -> Iterator[Case]:
    lots: list[tuple[list[int], list[int]]] = [
        ([-2, -2, -2], [-1, -1, -1]), ([0, 0, 0], [30, 30, 0]), ([5, 6, 0], [8, 9, 0]), ([6, 7, 0], [7, 8, 0]),
        ([3, -2, -2], [-1, 3, -1]), ([30, 30, 0], [30, 30, 0]), ([29, -2, 0], [30, 1, 0]), ([10, 10, 0], [-1, -1, -1]),
    ]  # fmt: skip
    for low, high in lots:
        options = {
            "startingOffsets": json.dumps({"trio": {str(number): offset for number, offset in enumerate(low)}}),
            "endingOffsets": json.dumps({"trio": {str(number): offset for number, offset in enumerate(high)}}),
        }
        marks: dict[int, Bound] = {-2: "start", -1: "end"}
        bounds = {
            ("trio", number): (marks.get(first, first), marks.get(last, last))
            for number, (first, last) in enumerate(zip(low, high, strict=True))
        }
        yield Case(f"offsets {low} to {high}", trio | options, bounds)
    yield Case("earliest to latest", {**trio, "startingOffsets": "earliest", "endingOffsets": "latest"}, whole("trio"))


def time_cases(times: dict[str, str]) -> Iterator[Case]:
    for low in (0, 510, 1001, 2500):
        options = {"startingTimestamp": str(FIRST_TIME + low)}
        bounds = {("times", number): (("time", FIRST_TIME + low), "end") for number in (0, 1)}
        yield Case(f"from time {low}", times | options, bounds)
    for high in (505, 2100, 9000):
        options = {"endingTimestamp": str(FIRST_TIME + high)}
        bounds = {("times", number): ("start", ("time", FIRST_TIME + high)) for number in (0, 1)}
        yield Case(f"up to time {high}", times | options, bounds)
    each = {"times": {"0": FIRST_TIME + 600, "1": FIRST_TIME + 1600}}
    bounds = {("times", 0): (("time", FIRST_TIME + 600), "end"), ("times", 1): (("time", FIRST_TIME + 1600), "end")}
    options = {"startingOffsetsByTimestamp": json.dumps(each), "startingOffsets": "latest"}
    yield Case("a time for each partition, before offsets", times | options, bounds)
    both = options | {"startingTimestamp": str(FIRST_TIME)}
    yield Case("one time for all before all else", times | both, whole("times"))
    ends = {
        ("times", 0): ("start", ("time", FIRST_TIME + 600)), ("times", 1): ("start", ("time", FIRST_TIME + 1600))
    }  # fmt: skip
    yield Case("up to a time for each", times | {"endingOffsetsByTimestamp": json.dumps(each)}, ends)
    late = {"startingTimestamp": str(FIRST_TIME + 9000), "startingOffsetsByTimestampStrategy": "latest"}
    yield Case("after all times, latest", times | late, {("times", n): ("end", "end") for n in (0, 1)})


def deal_cases() -> Iterator[Case]:
    """Cases on transactions of a real Kafka broker: committed, aborted, open."""
    deals = {"subscribe": "deals", "includeHeaders": "true"}
    yield Case("deals: committed", deals, whole("deals"))
    yield Case("deals: dirty", {**deals, "kafka.isolation.level": "read_uncommitted"}, whole("deals"), committed=False)
    yield Case("deals: in pieces", {**deals, "maxRecordsPerPartition": "9"}, whole("deals"))
    offsets = {"startingOffsets": '{"deals":{"0":8,"1":3}}', "endingOffsets": '{"deals":{"0":33,"1":-1}}'}
    yield Case("deals: in mid-transaction", deals | offsets, {("deals", 0): (8, 33), ("deals", 1): (3, "end")})


CASES = [*golden_cases(), *own_cases(), *([] if why_absent() else deal_cases())]


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def load(spark: Any, way: str, broker: Broker, options: dict[str, str]) -> Any:
    isolation = {"kafka.isolation.level": "read_committed"} if way == "kafka" else {}
    reader = spark.read.format(way).option("kafka.bootstrap.servers", broker.bootstrap)
    reader = reader.option("kafka.fetch.max.wait.ms", "20")
    return reader.options(**{**isolation, **options}).load()


def ways(broker: Broker) -> list[str]:
    return ["minikafka", "kafka"] if HAS_JVM_CONNECTOR and not why_absent() else ["minikafka"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_source_and_broker_returns_the_rows_of_the_log(
    case: Case, spark: Any, brokers: list[Broker], pool: ThreadPoolExecutor
) -> None:
    asked = [(broker, way) for broker in brokers for way in ways(broker)]

    def answer(broker: Broker, way: str) -> tuple[Any, list[Row]]:
        frame = load(spark, way, broker, case.options)
        return frame.schema, ordered(rows_of(frame))

    answers = [pool.submit(answer, *one) for one in asked]
    schemas = set()
    for (broker, way), future in zip(asked, answers, strict=True):
        schema, rows = future.result()
        schemas.add(schema.simpleString())
        assert rows == case.expected(broker), f"format({way!r}) from {broker.name}"
    assert len(schemas) == 1


def test_there_are_a_hundred_cases() -> None:
    assert len(CASES) >= 100 or not golden_topics()
