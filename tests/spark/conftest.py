"""Fixtures of the Spark tests: one Spark session, and brokers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.node import NodeProcess, ServerProcess
from support.oracle import Oracle, java, why_absent
from support.spark_brokers import Broker, filled_kafka, filled_node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small Spark session with two cores; with Spark's own Kafka connector if it was found.

    The folder on PYTHONPATH represents an installed package: Spark searches it for `pyspark_…` modules.
    """
    pytest.importorskip("pyspark")
    if java() is None:
        pytest.skip("no Java: Spark needs 17 or newer")
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    (folder / "site").mkdir()
    (folder / "site" / "pyspark_minikafka").symlink_to(CHECKOUT / "package" / "pyspark_minikafka")
    given = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder / "site"), *([given] if given else [])])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tests").config(map=configuration(folder))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    gateway = session.sparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(120)
    if given is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = given


def configuration(folder: Path) -> dict[str, str]:
    """The configuration that reduces Spark's memory, startup time and output."""
    jars = sorted((CHECKOUT.parent / "shared" / "apache-kafka" / "spark-jars").glob("*.jar"))
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "900m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Xss4m",
        **({"spark.jars": ",".join(map(str, jars))} if jars else {}),
    }


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A minikafka node. It deletes nothing: records of tests may be of 2023, and a check comes after five minutes."""
    with NodeProcess(tmp_path_factory.mktemp("minikafka") / "data", settings={"log.retention.ms": "-1"}) as process:
        yield process


@pytest.fixture(scope="module", params=["minikafka", pytest.param("Apache Kafka", marks=pytest.mark.oracle)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One node of each kind, in turn."""
    if request.param == "minikafka":
        yield request.getfixturevalue("node")
    elif why_absent():
        pytest.skip(why_absent() or "")
    else:
        with Oracle(tmp_path_factory.mktemp("oracle") / "kafka") as kafka:
            yield kafka


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    """minikafka and, if found, Apache Kafka with the same topics, which tests must not change."""
    folder = tmp_path_factory.mktemp("brokers")
    if why_absent():
        with filled_node(folder) as node:
            yield [Broker("minikafka", node, node.data_dir)]
    else:
        with filled_kafka(folder) as kafka, filled_node(folder, kafka.logs) as node:
            yield [Broker("minikafka", node, node.data_dir), Broker("Apache Kafka", kafka, kafka.logs)]
