"""`df.write` and `df.writeStream` with real Spark; confluent-kafka reads committed records and judges."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions
from support.node import NodeProcess
from support.oracle import SHARED, why_absent
from support.spark_brokers import create, produce
from support.spark_sink import numbers, options, read_committed, rows

from minikafka.spark_connector.sink.earlier_attempts import Write
from minikafka.spark_connector.sink.sink_tasks import write_once

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
HAS_JVM_CONNECTOR = not why_absent() and (SHARED / "apache-kafka" / "spark-jars").exists()
WAYS = ["minikafka", "kafka"] if HAS_JVM_CONNECTOR else ["minikafka"]


def write(frame: Any, node: NodeProcess, way: str = "minikafka", **options: str) -> None:
    given = {"kafka.bootstrap.servers": node.bootstrap, **options}
    frame.write.format(way).mode("append").options(**given).save()


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once", "atomic"])
def test_a_batch_is_written(spark: Any, node: NodeProcess, delivery: str) -> None:
    name = f"written-{delivery}"
    create(node.bootstrap, {name: 3})
    frame = spark.range(0, 25_000, 1, 3).selectExpr("cast(id as string) value", "cast(id % 10 as string) key")
    write(frame, node, topic=name, delivery=delivery)
    assert numbers(read_committed(node.bootstrap, name)) == list(range(25_000))


def test_both_sinks_write_the_same_records(spark: Any, node: NodeProcess) -> None:
    found = []
    for way in WAYS:
        name = f"same-{way}"
        create(node.bootstrap, {name: 4})
        frame = spark.range(200).selectExpr(
            f"'{name}' as topic", "concat('key ', id) key",
            "if(id % 7 = 0, null, cast(concat('v', id) as binary)) value",
            "array(struct('h' as key, if(id % 3 = 0, null, cast('v' as binary)) as value)) headers",
            "cast(if(id % 5 = 0, id % 4, null) as int) partition", "'ignored' as other",
        )  # fmt: skip
        write(frame, node, way, includeHeaders="true")
        found.append(sorted(str(one[:4]) for one in read_committed(node.bootstrap, name)))
    assert len(found[0]) == 200
    assert found[0] == found[-1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ("id as value", {"topic": "x"}, "value attribute unsupported type bigint. value must be a(n) string or binary"),
        ("'a' as key", {"topic": "x"}, "Required attribute 'value' not found"),
        ("'a' as value", {}, "topic option required when no 'topic' attribute is present. Use the topic option"),
        ("'a' as value, id as topic", {}, "topic attribute unsupported type bigint. topic must be a(n) string"),
        ("'a' as value, id as partition", {"topic": "x"}, "partition attribute unsupported type bigint. partition"),
        ("'a' as value", {"topic": "x", "kafka.key.serializer": "y"}, "Kafka option 'key.serializer' is not supported"),
        ("'a' as value, cast(null as string) topic", {}, "contains a null topic. Use the `topic` option"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_refusals_have_the_words_of_sparks_sink(
    spark: Any, node: NodeProcess, way: str, columns: str, given: dict[str, str], message: str
) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        write(spark.range(1).selectExpr(*columns.split(", ")), node, way, **given)
    assert message.lower() in str(caught.value).lower()


def test_a_batch_that_fails_leaves_nothing(spark: Any, node: NodeProcess) -> None:
    from pyspark.errors import PySparkException

    create(node.bootstrap, {"failing": 2})
    frame = spark.range(0, 1000, 1, 2).selectExpr("if(id = 999, raise_error('broken'), cast(id as string)) value")
    with pytest.raises(PySparkException):
        write(frame, node, topic="failing")
    assert read_committed(node.bootstrap, "failing") == []


def test_a_batch_with_a_version_is_written_once(spark: Any, node: NodeProcess) -> None:
    create(node.bootstrap, {"versions": 2})
    frame = spark.range(0, 100, 1, 2).selectExpr("cast(id as string) value")
    for version in ("0", "0", "1", "1"):
        write(frame, node, topic="versions", txnAppId="app", txnVersion=version)
    assert numbers(read_committed(node.bootstrap, "versions")) == sorted([*range(100), *range(100)])


class Copy:
    """Streams from one topic to another; a row with the value 299 fails as long as the file `broken` exists."""

    def __init__(self, spark: Any, node: NodeProcess, folder: Path, names: tuple[str, str], **options: str) -> None:
        self.broken = folder / "broken"
        self.checkpoint = folder / "checkpoint"
        self._spark = spark
        self._names = names
        self._options = {"kafka.bootstrap.servers": node.bootstrap}
        self._sink = options
        create(node.bootstrap, {names[0]: 3, names[1]: 2})
        messages = [{"value": b"%d" % number, "partition": number % 3} for number in range(300)]
        produce(node.bootstrap, names[0], messages)

    def run(self, tasks: int = 3) -> Any:
        """Runs the query until it has read everything, and returns it. Raises StreamingQueryException."""
        broken = self.broken

        def value_of(value: bytes) -> str:
            if broken.exists() and bytes(value) == b"299":
                raise RuntimeError("broken by the test")
            return bytes(value).decode()

        source = {**self._options, "subscribe": self._names[0], "startingOffsets": "earliest"}
        frame = self._spark.readStream.format("minikafka").options(**source).option("maxOffsetsPerTrigger", 200).load()
        frame = frame.select(functions.udf(value_of, "string", useArrow=False)("value").alias("value"))
        query = (
            frame.coalesce(tasks).writeStream.format("minikafka").options(**self._options, **self._sink)
            .option("topic", self._names[1]).option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        return query


def test_a_stream_that_breaks_in_the_middle_writes_each_record_once(
    spark: Any, node: NodeProcess, tmp_path: Path
) -> None:
    """In one micro-batch, one task commits and another fails; the restarted query repeats the micro-batch."""
    copy = Copy(spark, node, tmp_path, ("from", "to"))
    copy.broken.touch()
    with pytest.raises(StreamingQueryException, match="broken by the test"):
        copy.run()
    before = numbers(read_committed(node.bootstrap, "to"))
    assert 200 < len(before) < 300, "a task of the micro-batch that failed has committed"
    copy.broken.unlink()
    copy.run()
    assert numbers(read_committed(node.bootstrap, "to")) == list(range(300))


def test_an_atomic_stream_that_breaks_in_the_middle_shows_whole_micro_batches(
    spark: Any, node: NodeProcess, tmp_path: Path
) -> None:
    """The restarted query has another number of tasks."""
    copy = Copy(spark, node, tmp_path, ("from-atomic", "to-atomic"), delivery="atomic")
    copy.broken.touch()
    with pytest.raises(StreamingQueryException, match="broken by the test"):
        copy.run()
    assert len(read_committed(node.bootstrap, "to-atomic")) < 300
    before = numbers(read_committed(node.bootstrap, "to-atomic"))
    assert len(before) in (198, 200, 201), "one micro-batch, which divides 200 among three partitions"
    copy.broken.unlink()
    copy.run(tasks=1)
    assert numbers(read_committed(node.bootstrap, "to-atomic")) == list(range(300))


def test_a_stream_whose_tasks_have_changed_is_refused(spark: Any, node: NodeProcess, tmp_path: Path) -> None:
    """Its predecessor had six tasks; the fifth has committed rows of the first micro-batch when it was killed."""
    copy = Copy(spark, node, tmp_path, ("from-changed", "to-changed"))
    query = str(uuid.uuid4())
    copy.checkpoint.mkdir()
    (copy.checkpoint / "metadata").write_text(json.dumps({"id": query}))
    write = Write(f"minikafka-spark-{query}", 0, "the run before")
    write_once(options(node, "to-changed"), write, 4, rows(range(90, 100)))
    with pytest.raises(StreamingQueryException, match=f"micro-batch 0 of minikafka-spark-{query} is repeated with oth"):
        copy.run()
    assert numbers(read_committed(node.bootstrap, "to-changed")) == list(range(90, 100))
