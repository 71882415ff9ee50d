"""`minikafka cluster`: a local cluster of real processes in the foreground."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from minikafka.cli.options import NameValue

if TYPE_CHECKING:
    from minikafka.cli.cluster_view import View
    from minikafka.cli.local_cluster import LocalCluster

LOOK_INTERVAL_S = 0.2
DEFAULT_PORT = 9092


@click.command()
@click.option("--brokers", type=click.IntRange(1), help="How many; 3 in a new directory.")
@click.option("--controllers", type=click.IntRange(1), help="How many nodes are controllers too: the first three.")
@click.option("--isolated", is_flag=True, help="Controllers are processes of their own; ids follow the brokers'.")
@click.option("--port", type=click.IntRange(0, 65535), help="Of the first broker, 9092; 0 takes free ports.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("minikafka-cluster"),
    show_default=True,
    help="Where all is kept; a cluster that is there is continued, with its ports.",
)
@click.option("--set", "settings", multiple=True, type=NameValue(), help="A setting of every node; repeatable.")
def cluster(
    brokers: int | None,
    controllers: int | None,
    isolated: bool,
    port: int | None,
    data_dir: Path,
    settings: tuple[tuple[str, str], ...],
) -> None:
    """Run a local cluster; prints `ready HOST:PORT,HOST:PORT,…` when clients can be served.

    Each node is a process of its own, with DIR/node-ID/server.properties, pid, server.log and data. Kill one, and the
    others go on; `minikafka server --config DIR/node-ID/server.properties` starts it again. SIGTERM and Ctrl-C end all.

    \b
    Examples:
      minikafka cluster --brokers 3 --port 9092 --data-dir /tmp/kafka
      minikafka cluster --brokers 5 --controllers 3 --set log.retention.ms=3600000
      minikafka cluster --brokers 3 --controllers 3 --isolated
    """
    from minikafka.cli.cluster_layout import ClusterError
    from minikafka.cli.local_cluster import LocalCluster

    try:
        nodes = LocalCluster(
            data_dir,
            brokers=brokers,
            controllers=controllers,
            isolated=isolated,
            port=DEFAULT_PORT if port is None else port,
            settings=dict(settings),
        )
        with signals() as stopping:
            number = run(nodes, stopping)
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    if number == signal.SIGINT:
        raise click.exceptions.Exit(128 + number)


class Stopping:
    """Whether someone wants an end; `wait` returns as soon as that is so."""

    def __init__(self) -> None:
        self.signal = 0
        self._event = threading.Event()

    def heard(self, number: int, _frame: object) -> None:
        """A signal has come; the second is not waited for with patience."""
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number
        self._event.set()

    def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)


@contextmanager
def signals() -> Iterator[Stopping]:
    """SIGTERM and SIGINT are heard, not suffered, inside."""
    stopping = Stopping()
    before = {number: signal.signal(number, stopping.heard) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(nodes: LocalCluster, stopping: Stopping) -> int:
    """Until a signal comes, which is returned. No node outlives this, whatever happens once they are started.

    Raises ClusterError.
    """
    from minikafka.cli.cluster_view import view
    from minikafka.cli.local_cluster import POLL_S

    nodes.launch()
    try:
        while not stopping.signal and nodes.not_ready():
            stopping.wait(POLL_S)
        if not stopping.signal:
            click.echo(f"ready {nodes.bootstrap}")
            with view(nodes) as table:
                watch(nodes, stopping, table)
        nodes.stop()
    finally:
        nodes.kill()
    return stopping.signal


def watch(nodes: LocalCluster, stopping: Stopping, table: View) -> None:
    """Say which node ends, and how to have it back; keep the table fresh."""
    known = set(nodes.node_ids)
    while not stopping.wait(LOOK_INTERVAL_S):
        running = {node_id for node_id in nodes.node_ids if nodes.running(node_id)}
        for node_id in sorted(known - running):
            again = f"minikafka server --config {nodes.config(node_id)}"
            table.say(f"node {node_id} {how_it_ended(nodes.exit_code(node_id))}; start it again with: {again}")
        for node_id in sorted(running - known):
            table.say(f"node {node_id} runs again, as process {nodes.pid(node_id)}")
        known = running
        table.update()


def how_it_ended(exit_code: int | None) -> str:
    """`was killed (SIGKILL)`, `has ended with status 1`."""
    if exit_code is None or exit_code == 0:
        return "has ended"
    if exit_code < 0:
        return f"was killed ({signal.Signals(-exit_code).name})"
    return f"has ended with status {exit_code}"
