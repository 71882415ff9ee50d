"""A small local Spark session for the examples, and the flights in a topic as columns."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the usual name)

from minikafka.spark_connector import register

FLIGHT = "origin string, time_hour timestamp, dep_delay double, hour int"
NO_JAVA = (
    "No Java: this part, which uses Spark, is skipped. Install Java 17 or newer (apt install openjdk-17-jre-headless,"
    " dnf install java-17-openjdk-headless, brew install openjdk@17, or https://adoptium.net) and run this again."
)


def has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which(os.path.join(home, "bin", "java") if home else "java") is not None


def start_spark(name: str, more: Mapping[str, str] | None = None) -> SparkSession:
    """A session with the data source registered.

    Args:
        more: settings besides those that keep it small.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        **(more or {}),
    }
    spark = SparkSession.builder.master("local[2]").appName(name).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")  # stopping a query in the middle of a batch logs errors
    register(spark)
    return spark


def flights(records: DataFrame) -> DataFrame:
    """The JSON values of records, as columns."""
    return records.select(F.from_json(F.col("value").cast("string"), FLIGHT).alias("flight")).select("flight.*")
