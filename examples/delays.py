"""A streaming job: departure delays per airport and hour, joined with the weather of that hour.

    python examples/delays.py            (needs `pip install '.[demo]'` and Java 17 or newer)

It starts a minikafka node and replays the flights of 2013 into a topic. A PySpark job reads the topic with
`format("minikafka")`, aggregates departures in one-hour windows of event time with a watermark, and joins them with
the weather. The job is stopped half-way and later restarted from its checkpoint. At the end all results are compared
with those of a batch computation from the files.

The exit code is not 0 if any value differs.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from flights import load_frame, package_data
from local_spark import flights, start_spark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the usual name)
from rich.console import Console

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin, Producer

TOPIC = "departures"
PARTITIONS = 3
WATERMARK = "2 days"
OFFSETS_PER_TRIGGER = 20_000
STOP_AFTER_S = 300
LATER = "2014-06-01T00:00:00Z"
"""After all flights: a record with this timestamp advances the watermark past the last window."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, help="number of flights to use")
    options = parser.parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=100)
    frame = load_frame().sort_values("time_hour", kind="stable").head(options.limit)
    with (
        tempfile.TemporaryDirectory(prefix="minikafka-delays-") as folder,
        LocalCluster(Path(folder) / "cluster", brokers=1) as cluster,
    ):
        spark = start_spark("delays")
        try:
            found = stream(spark, cluster.bootstrap, frame, Path(folder), console).collect()
        finally:
            spark.stop()
    return 0 if compare(found, expected(frame), console) else 1


def stream(spark: SparkSession, bootstrap: str, frame: pd.DataFrame, folder: Path, console: Console) -> DataFrame:
    """Run the job, stop it in the middle and restart it. Returns everything it wrote."""
    lines = frame[["origin", "time_hour", "dep_delay", "hour"]].to_json(orient="records", lines=True).splitlines()
    half = len(lines) // 2
    replay(bootstrap, lines[:half], create=True)
    query = start(spark, bootstrap, folder, {})
    stop_at = time.monotonic() + STOP_AFTER_S
    while processed(query) < min(half // 2, OFFSETS_PER_TRIGGER) and query.isActive and time.monotonic() < stop_at:
        time.sleep(0.1)
    query.stop()
    if query.exception() is not None:
        raise SystemExit(f"the query failed: {query.exception()}")
    console.print(f"Stopped after {processed(query):,} of {len(lines):,} flights; producing the rest")
    last = json.dumps({"origin": "END", "time_hour": LATER, "dep_delay": None, "hour": 0})
    replay(bootstrap, [*lines[half:], *[last] * PARTITIONS])
    query = start(spark, bootstrap, folder, {"availableNow": True})
    query.awaitTermination()
    last_batch = query.lastProgress["batchId"]
    console.print(f"Restarted from the checkpoint: {processed(query):,} more records, up to batch {last_batch}")
    return spark.read.parquet(str(folder / "delays"))


def replay(bootstrap: str, lines: Sequence[str], *, create: bool = False) -> None:
    """Produce lines in order, round-robin over the partitions."""
    if create:
        with Admin(bootstrap) as admin:
            admin.create_topic(TOPIC, partitions=PARTITIONS)
    with Producer(bootstrap, compression_type="zstd") as producer:
        deliveries = [
            producer.send(TOPIC, line.encode(), partition=number % PARTITIONS) for number, line in enumerate(lines)
        ]
        for one in deliveries:
            one.result()


def start(spark: SparkSession, bootstrap: str, folder: Path, trigger: dict[str, Any]) -> Any:
    """Start the job: one-hour windows with a watermark, joined with the weather."""
    source = spark.readStream.format("minikafka").options(
        **{"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC},
        startingOffsets="earliest",
        maxOffsetsPerTrigger=OFFSETS_PER_TRIGGER,
    )
    hourly = (
        flights(source.load())
        .withWatermark("time_hour", WATERMARK)
        .groupBy("origin", F.window("time_hour", "1 hour"))
        .agg(F.count("*").alias("flights"), F.avg("dep_delay").alias("delay"))
        .select("origin", F.col("window.start").alias("time_hour"), "flights", "delay")
    )
    writer = hourly.join(weather(spark), ["origin", "time_hour"], "left").writeStream.format("parquet")
    writer = writer.option("path", str(folder / "delays")).option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(**trigger) if trigger else writer).start()


def weather(spark: SparkSession) -> DataFrame:
    table = spark.read.csv(str(package_data() / "weather.csv"), header=True, inferSchema=True, nullValue="NA")
    hours = table.select("origin", F.to_timestamp("time_hour").alias("time_hour"), "temp", "wind_speed")
    return hours.dropDuplicates(["origin", "time_hour"])


def processed(query: Any) -> int:
    return sum(one["numInputRows"] for one in query.recentProgress)


def expected(frame: pd.DataFrame) -> dict[tuple[str, str], tuple[int, float, float]]:
    """(origin, hour) → flights, mean delay and temperature, computed in one batch."""
    grouped = frame.groupby(["origin", "time_hour"])["dep_delay"].agg(["size", "mean"]).reset_index()
    hours = pd.read_csv(package_data() / "weather.csv").drop_duplicates(["origin", "time_hour"])
    joined = grouped.merge(hours[["origin", "time_hour", "temp"]], how="left", on=["origin", "time_hour"])
    return {
        (str(row.origin), str(row.time_hour)): (int(row.size_), number(row.mean_), number(row.temp))
        for row in joined.rename(columns={"size": "size_", "mean": "mean_"}).itertuples()
    }


def number(value: Any) -> float:
    return math.nan if pd.isna(value) else float(value)


def compare(found: Sequence[Any], wanted: dict[tuple[str, str], tuple[int, float, float]], console: Console) -> bool:
    """Whether the job wrote exactly these values, each once."""
    rows = [row for row in found if row.origin != "END"]
    got = {
        (row.origin, row.time_hour.strftime("%Y-%m-%dT%H:%M:%SZ")): (row.flights, number(row.delay), number(row.temp))
        for row in rows
    }
    wrong = [key for key in wanted.keys() | got.keys() if not same(wanted.get(key), got.get(key))]
    for key in sorted(wrong)[:10]:
        console.print(f"[bold red]WRONG[/] {key}: {got.get(key)} instead of {wanted.get(key)}")
    if len(rows) != len(got):
        console.print(f"[bold red]WRONG[/] {len(rows) - len(got)} windows were written twice")
    if wrong or len(rows) != len(got):
        return False
    console.print(f"[bold green]All {len(got):,} windows agree with the batch computation.[/]")
    return True


def same(one: tuple[float, ...] | None, other: tuple[float, ...] | None) -> bool:
    if one is None or other is None:
        return False
    pairs = zip(one, other, strict=True)
    return all(math.isclose(a, b, rel_tol=1e-9) or (math.isnan(a) and math.isnan(b)) for a, b in pairs)


if __name__ == "__main__":
    sys.exit(main())
