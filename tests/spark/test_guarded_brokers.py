"""Both connectors, ours and Spark's own, read and write where a login or a certificate and ACLs are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from support.guarded_nodes import OWN, USER, GuardedNode, guarded_node
from support.java_logins import ALLOWED_PROPERTY, JAVA_WAYS, TOKEN_BY_HTTP, JavaLogins, java_logins

from minikafka.client import Acl, NewTopic

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
CONNECTORS = ("minikafka", "kafka")
BOBS = "bobs"
READING, WRITING = {"groupIdPrefix": f"{OWN}spark"}, {"transactionalIdPrefix": f"{OWN}spark"}
"""By which the groups of Spark's own source, and the groups and transactional ids of our sink, are alice's."""


OURS = pytest.mark.parametrize("guarded", ["minikafka"], indirect=True)
BOTH = pytest.mark.parametrize("guarded", ["minikafka", "kafka"], indirect=True)


@pytest.fixture(scope="module")
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    with guarded_node(request.param, tmp_path_factory.mktemp("guarded")) as node:
        create(node, BOBS)
        yield node


def create(node: GuardedNode, *topics: str) -> None:
    with node.admin() as admin:
        results = admin.create_topics([NewTopic(topic, partitions=2, replication_factor=1) for topic in topics])
    assert set(results.values()) == {None}


@pytest.fixture(scope="module")
def logins(spark: Any, guarded: GuardedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaLogins]:
    """The logins of both connectors; Spark's JVM may take tokens from where they are."""
    with java_logins(guarded, tmp_path_factory.mktemp("logins")) as made:
        spark._jvm.System.setProperty(ALLOWED_PROPERTY, made.allowed_urls)
        yield made
        spark._jvm.System.clearProperty(ALLOWED_PROPERTY)


def options(logins: JavaLogins, way: str) -> dict[str, str]:
    """The options of both connectors by which alice logs in."""
    given = {"bootstrap.servers": logins.address_of(way), **logins.of(way)}
    return {f"kafka.{name}": value for name, value in given.items()}


def values(spark: Any, connector: str, given: dict[str, str], topic: str) -> list[str]:
    read = spark.read.format(connector).options(**given, **READING, subscribe=topic).load()
    return sorted(bytes(row.value).decode() for row in read.select("value").collect())


@OURS
@pytest.mark.parametrize("way", JAVA_WAYS)
def test_rows_that_one_connector_writes_are_read_by_both(spark: Any, logins: JavaLogins, way: str) -> None:
    topic, given = f"{OWN}{way.replace(' ', '-')}", options(logins, way)
    create(logins.node, topic)
    connectors = ("kafka",) if way == TOKEN_BY_HTTP else CONNECTORS
    for connector in connectors:
        frame = spark.createDataFrame([(f"{connector} {number}",) for number in range(3)], "value string")
        frame.write.format(connector).mode("append").options(**given, **WRITING, topic=topic).save()
    expected = sorted(f"{connector} {number}" for connector in connectors for number in range(3))
    for connector in connectors:
        assert values(spark, connector, given, topic) == expected, connector


@BOTH
@pytest.mark.parametrize(("source", "sink"), [CONNECTORS, CONNECTORS[::-1]])
def test_a_stream_of_one_connector_into_the_other(
    spark: Any, logins: JavaLogins, source: str, sink: str, tmp_path: Path
) -> None:
    given, topic = options(logins, "OAUTHBEARER"), f"{OWN}{source}-to-{sink}"
    create(logins.node, topic, f"{topic}-copy")
    frame = spark.createDataFrame([("x",), ("y",)], "value string")
    frame.write.format(source).mode("append").options(**given, **WRITING, topic=topic).save()
    stream = spark.readStream.format(source).options(**given, **READING, subscribe=topic)
    query = (
        stream.option("startingOffsets", "earliest")
        .load()
        .select("value")
        .writeStream.format(sink)
        .options(**given, **WRITING, topic=f"{topic}-copy")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert values(spark, sink, given, f"{topic}-copy") == ["x", "y"]


@OURS
@pytest.mark.parametrize(
    ("connector", "expected"),
    [("minikafka", "topic authorization failed"), ("kafka", "TopicAuthorizationException|Not authorized")],
)
def test_what_acls_deny_is_named(spark: Any, logins: JavaLogins, connector: str, expected: str) -> None:
    given = options(logins, "SCRAM-SHA-512")
    with pytest.raises(Exception, match=f"(?is){expected}"):
        values(spark, connector, given, BOBS)
    frame = spark.createDataFrame([("x",)], "value string")
    with pytest.raises(Exception, match=f"(?is){expected}"):
        frame.write.format(connector).mode("append").options(**given, **WRITING, topic=BOBS).save()


@OURS
def test_our_sink_needs_the_rights_that_the_page_names(spark: Any, logins: JavaLogins) -> None:
    given, user = options(logins, "SCRAM-SHA-512"), f"User:{USER}"
    create(logins.node, "granted")
    write = spark.createDataFrame([("x",)], "value string").write.format("minikafka").mode("append").options(**given)
    with logins.node.admin() as admin:
        admin.create_acls([Acl("topic", "granted", user, "write")])
        with pytest.raises(Exception, match=r"(?i)transactional id authorization failed"):
            write.option("topic", "granted").save()
        admin.create_acls([
            Acl("group", "minikafka-spark", user, "read", pattern="prefixed"),
            Acl("transactional_id", "minikafka-spark", user, "write", pattern="prefixed"),
        ])
        write.option("topic", "granted").save()
        admin.create_acls([Acl("topic", "granted", user, "read")])
    assert values(spark, "minikafka", given, "granted") == ["x"]
