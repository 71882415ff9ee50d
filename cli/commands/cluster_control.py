"""`minikafka cluster status`, `stop` and `restart`: commands for the nodes of a local cluster, whoever started them."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minikafka.broker.node.directory_kinds import why_no_cluster
from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.terminal.output import echo, json_option, output
from minikafka.cli.terminal.tables import numbers

if TYPE_CHECKING:
    from minikafka.cli.local_cluster import LocalCluster
    from minikafka.client import QuorumDescription
    from minikafka.client.connections.cluster_metadata import Topic

DEFAULT_DIRECTORY = Path("minikafka-cluster")
SUPERVISOR_TIMEOUT_S = 60.0
directory_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the cluster.  [default: minikafka-cluster]",
)
nodes_argument = click.argument("node_ids", nargs=-1, type=Whole(0, bits=32), metavar="[NODE]...")


@click.command()
@directory_option
@json_option
@click.pass_context
def status(context: click.Context, data_dir: Path | None, as_json: bool) -> None:
    """Show the nodes of a local cluster.

    Shows how many partitions each node leads, and which partitions have too few replicas in sync. The exit code is 1 if
    a node does not run.

    \b
    Examples:
      minikafka cluster status
      minikafka cluster status --data-dir /tmp/kafka --json
    """
    from minikafka.cli.clusters.supervisor_lock import supervisor
    from minikafka.cli.commands.cluster_view import nodes_table, partitions_summary

    nodes = cluster_at(context, data_dir)
    pids = {node_id: nodes.pid(node_id) for node_id in nodes.node_ids}
    parent = supervisor(nodes.directory)
    quorum, topics, silence = quorum_and_topics(nodes) if any(pids.values()) else (None, [], "no node runs")
    runner = f"`minikafka cluster` runs it (pid {parent})" if parent else "no `minikafka cluster` runs it"
    summary = [silence] if silence else partitions_summary(topics)
    lines = [f"{nodes.directory}: {runner}", *nodes_table(nodes, pids, quorum, topics), *summary]
    details = {
        "directory": str(nodes.directory),
        "bootstrap_server": nodes.bootstrap,
        "pid": parent or None,
        "leader": None if quorum is None else quorum.leader_id,
        "nodes": [node_details(nodes, node_id, pid) for node_id, pid in pids.items()],
    }
    output(details, lines, as_json=as_json)
    if not all(pids.values()):
        raise click.exceptions.Exit(1)


@click.command()
@directory_option
@nodes_argument
@json_option
@click.pass_context
def stop(context: click.Context, data_dir: Path | None, node_ids: tuple[int, ...], as_json: bool) -> None:
    """Stop NODEs cleanly, or the whole cluster.

    Without NODEs, stops all nodes and the `minikafka cluster` that runs them. A node that takes longer than 30 s is
    killed.

    \b
    Examples:
      minikafka cluster stop
      minikafka cluster stop 2 --data-dir /tmp/kafka
    """
    from minikafka.cli.clusters.cluster_layout import ClusterError

    nodes = cluster_at(context, data_dir)
    try:
        before = {node_id for node_id in nodes.chosen(*node_ids) if nodes.running(node_id)}
        if not node_ids:
            stop_supervisor(nodes.directory)
        nodes.stop(*node_ids)
    except (ClusterError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    said = f"Stopped {shown(sorted(before))}." if before else "Nothing ran."
    output({"stopped": sorted(before)}, [said], as_json=as_json)


@click.command()
@directory_option
@nodes_argument
@json_option
@click.pass_context
def restart(context: click.Context, data_dir: Path | None, node_ids: tuple[int, ...], as_json: bool) -> None:
    """Restart NODEs, or all nodes, one after the other.

    Before each restart, the command waits until all replicas are in sync. Nodes that do not run are started first, all
    at once. The nodes continue to run when this command has ended.

    \b
    Examples:
      minikafka cluster restart
      minikafka cluster restart 2 --data-dir /tmp/kafka
    """
    from minikafka.cli.clusters.cluster_layout import ClusterError

    nodes = cluster_at(context, data_dir)
    try:
        chosen = nodes.chosen(*node_ids)
        down = [node_id for node_id in chosen if not nodes.running(node_id)]
        if down:
            nodes.start(*down)
            say(f"Started {shown(down)}.", as_json=as_json)
        for node_id in chosen:
            if node_id not in down:
                wait_before_restart(nodes, node_id)
                nodes.restart(node_id)
                say(f"Restarted node {node_id} (pid {nodes.pid(node_id)}).", as_json=as_json)
        restarted = [{"node": node_id, "pid": nodes.pid(node_id)} for node_id in chosen if node_id not in down]
        output({"started": down, "restarted": restarted}, [], as_json=as_json)
    except (ClusterError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        nodes.release()


def wait_before_restart(nodes: LocalCluster, node_id: int) -> None:
    """Wait until all replicas are in sync. Raises ClusterError, which says what to do if the node is the cause."""
    from minikafka.cli.clusters.cluster_layout import ClusterError

    try:
        nodes.wait_in_sync()
    except ClusterError as error:
        raise ClusterError(
            f"{error}. Node {node_id} was not restarted; if it is the cause itself, as with a data directory that is "
            f"offline: `minikafka cluster stop {node_id}`, then `minikafka cluster restart {node_id}`"
        ) from error


def say(line: str, *, as_json: bool) -> None:
    """Print at once what was done, unless the output is JSON, which has it in the result."""
    if not as_json:
        echo(line)


def cluster_at(context: click.Context, data_dir: Path | None) -> LocalCluster:
    """The cluster in the directory given to `minikafka cluster` or to its subcommand, or in the default directory.

    Raises click.ClickException if there is no cluster.
    """
    from minikafka.cli.clusters.cluster_layout import ClusterError
    from minikafka.cli.local_cluster import LocalCluster

    given: Path | None = context.parent.params.get("data_dir") if context.parent is not None else None
    directory = data_dir or given or DEFAULT_DIRECTORY
    if not any(directory.glob("node-*/server.properties")):
        raise click.ClickException(
            why_no_cluster(directory)
            or f"no cluster in {directory}: `minikafka cluster --data-dir {directory}` creates one and runs it"
        )
    try:
        nodes = LocalCluster(directory)
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    for warning in nodes.warnings:
        echo(warning, err=True)
    return nodes


def quorum_and_topics(nodes: LocalCluster) -> tuple[QuorumDescription | None, list[Topic], str]:
    """The quorum and topics as the brokers describe them, and ""; or the reason why no broker answers."""
    from minikafka.cli.commands.cluster_view import API_TIMEOUT_MS
    from minikafka.client.blocking import Admin
    from minikafka.client.connections.cluster_metadata import Topic
    from minikafka.protocol.errors import KafkaError

    limit_ms = API_TIMEOUT_MS
    try:
        with Admin(
            nodes.bootstrap,
            default_api_timeout_ms=limit_ms,
            socket_connection_setup_timeout_ms=limit_ms,
            **nodes.admin_options,
        ) as admin:
            topics = [one for one in admin.describe_topics(None).values() if isinstance(one, Topic)]
            return admin.describe_quorum(), topics, ""
    except KafkaError as error:
        return None, [], f"no broker responds: {error}"


def node_details(nodes: LocalCluster, node_id: int, pid: int) -> dict[str, Any]:
    """The details of a node for JSON."""
    one = nodes.nodes[node_id]
    return {
        "node": node_id,
        "roles": one.roles.split(","),
        "port": one.port or None,
        "controller_port": one.controller_port or None,
        "pid": pid or None,
        "config": str(nodes.config(node_id)),
    }


def stop_supervisor(directory: Path) -> None:
    """End the command that runs a cluster, which stops the nodes. Raises ClusterError if it does not end."""
    from minikafka.cli.clusters.cluster_layout import ClusterError
    from minikafka.cli.clusters.node_process import send
    from minikafka.cli.clusters.supervisor_lock import supervisor
    from minikafka.cli.local_cluster import POLL_S

    pid = supervisor(directory)
    send(lambda: supervisor(directory), signal.SIGTERM)
    deadline = time.monotonic() + SUPERVISOR_TIMEOUT_S
    while pid and supervisor(directory) == pid:
        if time.monotonic() > deadline:
            raise ClusterError(f"`minikafka cluster` (pid {pid}) did not end within {SUPERVISOR_TIMEOUT_S:.0f} s")
        time.sleep(POLL_S)


def shown(node_ids: Sequence[int]) -> str:
    """The ids of nodes as text: `node 1`, `nodes 1,2`."""
    return f"node{'s' if len(node_ids) > 1 else ''} {numbers(node_ids)}"
