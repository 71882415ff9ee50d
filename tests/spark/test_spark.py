"""Behavior visible only through Spark: discovery, schemas, errors."""

from __future__ import annotations

from typing import Any

import pytest
from support.node import NodeProcess, ServerProcess
from support.oracle import SHARED, why_absent
from support.spark_brokers import create, message, produce

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
HAS_JVM_CONNECTOR = not why_absent() and (SHARED / "apache-kafka" / "spark-jars").exists()
WAYS = ["minikafka", "kafka"] if HAS_JVM_CONNECTOR else ["minikafka"]
COUNT = 50


@pytest.fixture(scope="module")
def seen(node: NodeProcess) -> NodeProcess:
    """The node, with a topic of 50 records in two partitions."""
    create(node.bootstrap, {"seen": 2})
    produce(node.bootstrap, "seen", [message(number, number % 2) for number in range(COUNT)])
    return node


def options(server: ServerProcess, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": server.bootstrap, "subscribe": "seen", **more}


def test_the_format_is_found_without_being_registered(spark: Any, seen: NodeProcess) -> None:
    fresh = spark.newSession()
    assert fresh.read.format("MiniKafka").options(**options(seen)).load().count() == COUNT
    fresh.sql(
        "CREATE TEMPORARY VIEW seen USING minikafka OPTIONS ("
        f"`kafka.bootstrap.servers` '{seen.bootstrap}', subscribe 'seen', maxRecordsPerPartition '7')"
    )
    assert fresh.sql("SELECT count(DISTINCT partition, offset) FROM seen").head()[0] == COUNT


def test_a_schema_selects_columns(spark: Any, seen: NodeProcess) -> None:
    frame = spark.read.format("minikafka").schema("offset long, partition int").options(**options(seen)).load()
    assert sorted(map(tuple, frame.collect())) == sorted((n // 2, n % 2) for n in range(COUNT))
    streamed = spark.readStream.format("minikafka").schema("timestampType int").options(**options(seen)).load()
    assert streamed.columns == ["timestampType"]


@pytest.mark.parametrize(
    ("schema", "message"),
    [("ofset long", "has no column 'ofset'"), ("offset int", "column 'offset' is bigint, not int")],
)
def test_a_schema_with_unknown_columns_is_refused(spark: Any, seen: NodeProcess, schema: str, message: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=message):
        spark.read.format("minikafka").schema(schema).options(**options(seen)).load().collect()


def test_filters_do_not_leak_into_other_uses_of_a_frame(spark: Any, seen: NodeProcess) -> None:
    frame = spark.read.format("minikafka").options(**options(seen)).load()
    assert frame.where("offset = 5").union(frame).count() == COUNT + 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"subscribePattern": "s.*"}, "Only one of the following options can be specified for Kafka source: "),
        ({"kafka.auto.offset.reset": "latest"}, "Kafka option 'auto.offset.reset' is not supported."),
        ({"kafka.enable.auto.commit": "true"}, "Kafka option 'enable.auto.commit' is not supported"),
        ({"startingOffsets": '{"seen":{"0":1}}'}, "Assigned: "),
        ({"startingOffsets": '{"seen":{"0":99,"1":0}}'}, "is greater than the resolved end offset 25 for topic"),
        ({"startingTimestamp": "9000000000000"}, "No offset matched from request of topic-partition seen-"),
        ({"minPartitions": "-1"}, "minPartitions must be positive"),
        ({"startingOffsets": "{]"}, 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got {]'),
    ],
    ids=lambda value: str(value)[:40],
)
def test_error_messages_are_those_of_sparks_source(
    spark: Any, seen: NodeProcess, way: str, more: dict[str, str], message: str
) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        spark.read.format(way).options(**options(seen, **more)).load().collect()
    assert message in str(caught.value)
