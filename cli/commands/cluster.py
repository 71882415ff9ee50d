"""`minikafka cluster`: runs a local cluster, one process per node, in the foreground."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from minikafka.cli.arguments.contexts import DEFAULT_BOOTSTRAP_SERVER, DEFAULT_PORT
from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.arguments.options import NameValue
from minikafka.cli.commands.cluster_control import DEFAULT_DIRECTORY, restart, shown, status, stop
from minikafka.cli.terminal.output import echo
from minikafka.cli.terminal.standard_streams import must_be_read

if TYPE_CHECKING:
    import datetime

    from minikafka.cli.clusters.secure_files import SecureFiles
    from minikafka.cli.commands.cluster_view import View
    from minikafka.cli.local_cluster import LocalCluster

POLL_INTERVAL_S = 0.2


@click.group(invoke_without_command=True)
@click.option("--brokers", type=Whole(1), help="Number of brokers.  [default: 3; that of an existing cluster]")
@click.option(
    "--controllers",
    type=Whole(1),
    help="Number of controllers; without --isolated, the first brokers are controllers too.  [default: 3, at "
    "most --brokers]",
)
@click.option(
    "--isolated", is_flag=True,
    help="Run controllers as nodes of their own, with ids after those of the brokers.",
)
@click.option(
    "--port",
    type=Whole(0, 65535),
    help=f"Port of the first broker; 0 picks free ports.  [default: {DEFAULT_PORT}; those of an existing cluster]",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DIRECTORY,
    show_default=True,
    help="Directory of the cluster; an existing cluster is restarted, on its ports.",
)
@click.option(
    "--set", "settings", multiple=True, type=NameValue(),
    help="Setting of every node, by Kafka's name; repeatable.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="Make a new cluster with TLS, SASL and ACLs: certificates, users and client.properties in DIR/secure.",
)
@click.option(
    "--attach", is_flag=True,
    help="Take over nodes that run already, for example after kill -9 of this command.",
)
@click.pass_context
def cluster(
    context: click.Context,
    brokers: int | None,
    controllers: int | None,
    isolated: bool,
    port: int | None,
    data_dir: Path,
    settings: tuple[tuple[str, str], ...],
    secure: bool,
    attach: bool,
) -> None:
    """Run a local cluster, each node as a process of its own, until SIGTERM or Ctrl-C.

    Prints `ready HOST:PORT,HOST:PORT,…` once all nodes accept clients, then the addresses of their metrics, 200 ports
    above those for clients (`--set metrics.listener=` turns metrics off). Settings of --set are written to the files
    of all nodes; if the start fails, the files are restored.

    Each node has server.properties, pid, server.log and data in DIR/node-ID. After a node was killed, `minikafka
    cluster restart ID` starts it again, and so does `minikafka server --config DIR/node-ID/server.properties`.

    \b
    Examples:
      minikafka cluster --brokers 3 --port 9092 --data-dir /tmp/kafka
      minikafka cluster --brokers 5 --controllers 3 --set log.retention.ms=3600000
      minikafka cluster --brokers 3 --controllers 3 --isolated
      minikafka cluster --secure --data-dir /tmp/secured
    """
    from minikafka.cli.clusters.secure_files import SecureFiles
    from minikafka.cli.clusters.supervisor_lock import supervising
    from minikafka.cli.local_cluster import LocalCluster

    if context.invoked_subcommand is not None:
        return
    files = SecureFiles(data_dir)
    with readable_errors(data_dir), secured(files, new=secure and not files.exist()) as of_security:
        nodes = LocalCluster(
            data_dir,
            brokers=brokers,
            controllers=controllers,
            isolated=isolated,
            port=port,
            settings={**of_security, **dict(settings)},
            metrics=True,
        )
        for warning in nodes.warnings:
            echo(warning, err=True)
        with must_be_read(), taken_back_unless_started(nodes), supervising(nodes.directory), signals() as stopping:
            number = run(nodes, stopping, files if of_security else None, attach=attach)
    if number == signal.SIGINT:
        raise click.exceptions.Exit(128 + number)


for subcommand in (status, stop, restart):
    cluster.add_command(subcommand)


@contextmanager
def readable_errors(directory: Path) -> Iterator[None]:
    """Convert the errors of a cluster in a directory, and of a full disk, to click.ClickException."""
    from minikafka.broker.node.full_disk import why_full
    from minikafka.cli.clusters.cluster_layout import ClusterError

    try:
        yield
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        if why := why_full(error, str(directory)):
            raise click.ClickException(f"{directory} cannot be written: {why}") from error
        raise


@contextmanager
def secured(files: SecureFiles, *, new: bool) -> Iterator[dict[str, str]]:
    """Make the files of a new secured cluster, and yield the settings of its nodes; none unless `new`.

    If the block fails before the cluster has a node's data, the files are removed.
    """
    settings = files.make() if new else {}
    try:
        yield settings
    except BaseException:
        if new and not any(files.directory.glob("node-*")):
            files.take_back()
        raise


@contextmanager
def taken_back_unless_started(nodes: LocalCluster) -> Iterator[None]:
    """If the nodes of a cluster cannot start, remove the files and settings of this attempt, which the next attempt
    would otherwise use."""
    from minikafka.cli.clusters.cluster_layout import ClusterError

    try:
        yield
    except ClusterError:
        if not nodes.was_ready:
            nodes.take_back()
        raise


class Stopping:
    """Records the first SIGTERM or SIGINT; `wait` returns as soon as it arrives."""

    def __init__(self) -> None:
        self.signal = 0
        self._event = threading.Event()

    def on_signal(self, number: int, _frame: object) -> None:
        """Record a signal. Raises KeyboardInterrupt for a second one."""
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number
        self._event.set()

    def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)


@contextmanager
def signals() -> Iterator[Stopping]:
    """Handle SIGTERM and SIGINT inside the block."""
    stopping = Stopping()
    before = {number: signal.signal(number, stopping.on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(nodes: LocalCluster, stopping: Stopping, new_files: SecureFiles | None = None, *, attach: bool) -> int:
    """Run nodes until a signal arrives, and return its number. On return or error all nodes have ended.

    With `new_files`, the cluster is new and secured, and gets its user.

    Raises ClusterError. If some nodes run already and `attach` is false, it is raised before any node is started or
    stopped.
    """
    from minikafka.cli.clusters.cluster_layout import ClusterError
    from minikafka.cli.clusters.secure_files import SecureFiles
    from minikafka.cli.commands.cluster_view import view

    running = list(filter(nodes.running, nodes.node_ids))
    if running and not attach:
        raise ClusterError(
            f"node {running[0]} of {nodes.directory} is already running (pid {nodes.pid(running[0])}): "
            "add --attach to take up what runs, or end it by `minikafka cluster stop`"
        )
    started = [node_id for node_id in nodes.node_ids if node_id not in running]
    secure = SecureFiles(nodes.directory)
    if secure.exist() and not running and secure.renew():
        echo(f"new certificates, since the old ones expire: copy {secure.authority} to other machines", err=True)
    try:
        if started:
            nodes.launch(*started)
        wait_until_ready(nodes, started, stopping)
        if not stopping.signal:
            if new_files is not None:
                add_client(nodes, new_files)
            nodes.was_ready = True
            echo(f"ready {nodes.bootstrap}")
            urls = list(filter(None, map(nodes.metrics_url, nodes.node_ids)))
            echo(f"metrics {' '.join(urls)}" if urls else "no metrics: metrics.listener is empty")
            if secure.exist():
                echo(secured_line(nodes.bootstrap, secure.client, secure.valid_until.date()))
            with view(nodes) as table:
                watch(nodes, stopping, table)
        nodes.stop()
    finally:
        nodes.kill()
    return stopping.signal


def secured_line(bootstrap: str, client: Path, valid_until: datetime.date) -> str:
    """The options that commands need to use a secured cluster: its address too, if it is not the default one."""
    at = "" if DEFAULT_BOOTSTRAP_SERVER in bootstrap.split(",") else f"-b {bootstrap} "
    return f"secured: clients need {at}--command-config {client}; certificates are valid until {valid_until}"


def add_client(nodes: LocalCluster, files: SecureFiles) -> None:
    """Add the user of `client.properties` to a new cluster. Raises ClusterError."""
    from minikafka.cli.clusters.cluster_layout import ClusterError
    from minikafka.client.blocking import Admin
    from minikafka.protocol.errors import KafkaError

    try:
        with Admin(nodes.bootstrap, **nodes.admin_options) as admin:
            files.add_client(admin)
    except KafkaError as error:
        raise ClusterError(f"the user of {files.client} cannot be added: {error}") from error


def wait_until_ready(nodes: LocalCluster, started: Sequence[int], stopping: Stopping) -> None:
    """Wait until nodes are ready, or a signal arrives. A long wait is reported, as clients do. Raises ClusterError if a
    node has ended."""
    from minikafka.cli.local_cluster import POLL_S
    from minikafka.client.connections.waits import INTERVAL_S, PATIENCE_S

    said_at = time.monotonic() + PATIENCE_S - INTERVAL_S
    while not stopping.signal and started and (waiting := nodes.not_ready(*started)):
        if time.monotonic() - said_at >= INTERVAL_S:
            said_at = time.monotonic()
            logs = nodes.folder(waiting[0]) / "server.log"
            echo(f"waiting for {shown(waiting)} to be ready: see {logs}", err=True)
        stopping.wait(POLL_S)


def watch(nodes: LocalCluster, stopping: Stopping, table: View) -> None:
    """Report nodes that end, with the command that restarts them, and refresh the table."""
    running_before = set(nodes.node_ids)
    while not stopping.wait(POLL_INTERVAL_S):
        running = {node_id for node_id in nodes.node_ids if nodes.running(node_id)}
        for node_id in sorted(running_before - running):
            again = f"minikafka server --config {nodes.config(node_id)}"
            table.message(f"node {node_id} {exit_reason(nodes.exit_code(node_id))}; restart it with: {again}")
        for node_id in sorted(running - running_before):
            table.message(f"node {node_id} restarted (pid {nodes.pid(node_id)})")
        running_before = running
        table.update()


def exit_reason(exit_code: int | None) -> str:
    """How a process ended, in words: `killed (SIGKILL)` or `exited with status 1`."""
    if exit_code is None or exit_code == 0:
        return "exited"
    if exit_code < 0:
        return f"killed ({signal.Signals(-exit_code).name})"
    return f"exited with status {exit_code}"
