"""`minikafka context`: manages names for clusters, and the cluster that commands ask by default."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from minikafka.cli.arguments.contexts import (
    Contexts,
    NamedCluster,
    checked_addresses,
    complete_context,
    contexts_file,
    read_contexts,
    write_contexts,
)
from minikafka.cli.terminal.output import json_option, output
from minikafka.cli.terminal.tables import table


@click.group()
def context() -> None:
    """Name clusters, and choose the one that commands use: list, add, use and remove contexts.

    A command connects to the first of these that is given: --bootstrap-server or --context, bootstrap.servers of
    --command-config, MINIKAFKA_BOOTSTRAP_SERVER, MINIKAFKA_CONTEXT, bootstrap.servers of MINIKAFKA_COMMAND_CONFIG, the
    context in use, 127.0.0.1:9092. With a context, its own file of settings is used, or that of --command-config, but
    never that of MINIKAFKA_COMMAND_CONFIG.

    Example: minikafka context use prod
    """


@context.command("list")
@json_option
def list_contexts(as_json: bool) -> None:
    """List contexts; the one in use has a star.

    Example: minikafka context list
    """
    found = read_contexts()
    clusters = sorted(found.clusters.items())
    details = [_details(name, cluster, is_current=name == found.current) for name, cluster in clusters]
    head = ["", "context", "bootstrap server"]
    rows = [["*" if name == found.current else "", name, cluster.bootstrap_server] for name, cluster in clusters]
    if any(cluster.command_config for _, cluster in clusters):
        head.append("command config")
        rows = [[*row, cluster.command_config or "-"] for row, (_, cluster) in zip(rows, clusters, strict=True)]
    empty = [f"No contexts in {contexts_file()}: `minikafka context add NAME HOST:PORT` adds one."]
    output(details, table(head, rows) if rows else empty, as_json=as_json)


def _details(name: str, cluster: NamedCluster, *, is_current: bool) -> dict[str, Any]:
    """A context for JSON; only one with a file has `command_config`."""
    configured = {"command_config": cluster.command_config} if cluster.command_config else {}
    return {"name": name, "bootstrap_server": cluster.bootstrap_server, **configured, "current": is_current}


@context.command()
@click.argument("name")
@click.argument("addresses", metavar="HOST[:PORT],...")
@click.option(
    "--command-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A client.properties file with the settings to connect to this cluster.",
)
@click.option("--use", "used", is_flag=True, help="Make commands use this context from now on.")
@json_option
def add(name: str, addresses: str, command_config: Path | None, used: bool, as_json: bool) -> None:
    """Add the context NAME, or change its addresses and its file. An address without a port has port 9092.

    Example: minikafka context add test localhost:9093,localhost:9094 --use
    """
    found = read_contexts()
    file = "" if command_config is None else str(command_config.absolute())
    cluster = NamedCluster(checked_addresses(addresses), file)
    write_contexts(Contexts({**found.clusters, name: cluster}, name if used else found.current))
    current = used or name == found.current
    said = f"Context {name} is {cluster.bootstrap_server}{' and is in use' if current else ''}."
    output(_details(name, cluster, is_current=current), [said], as_json=as_json)


@context.command()
@click.argument("name", shell_complete=complete_context)
@json_option
def use(name: str, as_json: bool) -> None:
    """Make commands use the cluster NAME from now on.

    Example: minikafka context use prod
    """
    found = read_contexts()
    cluster = found.find(name)
    write_contexts(replace(found, current=name))
    said = f"Commands now use {name} ({cluster.bootstrap_server})."
    output(_details(name, cluster, is_current=True), [said], as_json=as_json)


@context.command()
@click.argument("name", shell_complete=complete_context)
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove the context NAME. The cluster is left as it is.

    Example: minikafka context remove prod
    """
    found = read_contexts()
    found.find(name)
    others = {other: cluster for other, cluster in found.clusters.items() if other != name}
    was_used = found.current == name
    write_contexts(Contexts(others, "" if was_used else found.current))
    said = f"Removed context {name}{', which was in use; now no context is' if was_used else ''}."
    output({"removed": name, "was_current": was_used}, [said], as_json=as_json)
