"""A part of the demo: PySpark reads the topic of `flights.py` in one batch and computes delays by hour.

    python examples/flights.py --then 'python examples/by_hour.py'            (or `make demo`)

`format("minikafka")` is pure Python, without a jar or a connector in the JVM. Spark needs Java 17 or newer; without
Java this step is skipped with a message. The exit code is not 0 if a value differs from the one computed from the data
frame.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from flights import TOPIC, load_frame
from hourly_picture import draw
from local_spark import NO_JAVA, flights, has_java, start_spark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the usual name)
from rich.console import Console
from rich.table import Table

ByHour = list[tuple[int, float]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default=os.environ.get("MINIKAFKA_BOOTSTRAP_SERVER", "localhost:9092"))
    parser.add_argument("--limit", type=int, help="number of flights in the topic")
    parser.add_argument("--picture", type=Path, help="write the delays by hour to this file, as SVG")
    options = parser.parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=100)
    if not has_java():
        console.print(NO_JAVA)
        return 0
    console.print('Reading the topic with Spark: spark.read.format("minikafka") …')
    spark = start_spark("flights")
    try:
        by_hour = delays_by_hour(spark, options.bootstrap)
    finally:
        spark.stop()
    show(by_hour, console)
    if options.picture:
        options.picture.write_text(draw(by_hour))
    agrees = same(by_hour, load_frame().head(options.limit))
    verdict = "[bold green]These values agree" if agrees else "[bold red]WRONG[/] These values do not agree"
    console.print(f"{verdict} with those of the data frame.")
    return 0 if agrees else 1


def delays_by_hour(spark: SparkSession, bootstrap: str) -> ByHour:
    """Mean departure delay by the scheduled hour of the day, over the whole topic."""
    source = spark.read.format("minikafka").options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC})
    known = flights(source.load()).where("dep_delay is not null")
    rows = known.groupBy("hour").agg(F.avg("dep_delay").alias("delay")).orderBy("hour").collect()
    return [(row.hour, row.delay) for row in rows]


def same(by_hour: ByHour, frame: pd.DataFrame) -> bool:
    """Whether the data frame has the same values."""
    expected = frame.groupby("hour")["dep_delay"].mean().dropna()
    known = dict(by_hour)
    return known.keys() == set(expected.index) and all(
        math.isclose(known[hour], delay, rel_tol=1e-9) for hour, delay in expected.items()
    )


def show(by_hour: Sequence[tuple[int, float]], console: Console) -> None:
    table = Table("hour", "delay", "", title="Mean departure delay by scheduled hour, in minutes, by Spark")
    for hour, delay in by_hour:
        table.add_row(f"{hour:02}", f"{delay:.1f}", "█" * round(max(delay, 0)))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
