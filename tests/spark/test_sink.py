"""`df.write` and `df.writeStream` with real Spark; confluent-kafka reads committed records and judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.node import NodeProcess
from support.oracle import SHARED, why_absent
from support.spark_brokers import create, produce
from support.spark_sink import numbers, read_committed

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
HAS_JVM_CONNECTOR = not why_absent() and (SHARED / "apache-kafka" / "spark-jars").exists()
WAYS = ["minikafka", "kafka"] if HAS_JVM_CONNECTOR else ["minikafka"]


def write(frame: Any, node: NodeProcess, way: str = "minikafka", **options: str) -> None:
    given = {"kafka.bootstrap.servers": node.bootstrap, **options}
    frame.write.format(way).mode("append").options(**given).save()


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
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
    ("columns", "options", "message"),
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
    spark: Any, node: NodeProcess, way: str, columns: str, options: dict[str, str], message: str
) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        write(spark.range(1).selectExpr(*columns.split(", ")), node, way, **options)
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


def test_a_stream_that_breaks_in_the_middle_writes_each_record_once(
    spark: Any, node: NodeProcess, tmp_path: Path
) -> None:
    """In one micro-batch, one task commits and another fails; the restarted query repeats the micro-batch."""
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import functions

    create(node.bootstrap, {"from": 3, "to": 2})
    messages = [{"value": b"%d" % number, "partition": number % 3} for number in range(300)]
    produce(node.bootstrap, "from", messages)
    broken = tmp_path / "broken"
    broken.touch()

    @functions.udf(returnType="string", useArrow=False)
    def value_of(value: bytes) -> str:
        if broken.exists() and bytes(value) == b"299":
            raise RuntimeError("broken by the test")
        return bytes(value).decode()

    def run() -> None:
        source = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": "from", "startingOffsets": "earliest"}
        frame = spark.readStream.format("minikafka").options(**source).option("maxOffsetsPerTrigger", 200).load()
        frame = frame.select(value_of("value").alias("value"))
        query = (
            frame.writeStream.format("minikafka").option("kafka.bootstrap.servers", node.bootstrap)
            .option("topic", "to").option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()

    with pytest.raises(StreamingQueryException, match="broken by the test"):
        run()
    before = numbers(read_committed(node.bootstrap, "to"))
    assert 200 < len(before) < 300, "a task of the micro-batch that failed has committed"
    broken.unlink()
    run()
    assert numbers(read_committed(node.bootstrap, "to")) == list(range(300))
