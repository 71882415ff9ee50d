"""`minikafka context`: manages names for clusters, and the cluster that commands ask by default."""

from __future__ import annotations

from dataclasses import replace

import click

from minikafka.cli.arguments.contexts import (
    Contexts,
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
    """Name clusters, and choose the one that commands ask: list, add, use and remove contexts.

    A command asks, in this order: --bootstrap-server, --context, MINIKAFKA_BOOTSTRAP_SERVER, MINIKAFKA_CONTEXT, the
    context in use, 127.0.0.1:9092.

    Example: minikafka context use prod
    """


@context.command("list")
@json_option
def list_contexts(as_json: bool) -> None:
    """List contexts; the one in use has a star.

    Example: minikafka context list
    """
    found = read_contexts()
    servers = sorted(found.bootstrap_servers.items())
    details = [{"name": name, "bootstrap_server": one, "current": name == found.current} for name, one in servers]
    rows = [["*" if name == found.current else "", name, one] for name, one in servers]
    empty = [f"No contexts in {contexts_file()}: `minikafka context add NAME HOST:PORT` adds one."]
    output(details, table(("", "context", "bootstrap server"), rows) if rows else empty, as_json=as_json)


@context.command()
@click.argument("name")
@click.argument("addresses", metavar="HOST[:PORT],...")
@click.option("--use", "used", is_flag=True, help="Use it from now on.")
@json_option
def add(name: str, addresses: str, used: bool, as_json: bool) -> None:
    """Add the context NAME, or change its addresses. The port is 9092 where there is none.

    Example: minikafka context add test localhost:9093,localhost:9094 --use
    """
    found = read_contexts()
    servers = {**found.bootstrap_servers, name: checked_addresses(addresses)}
    write_contexts(Contexts(servers, name if used else found.current))
    current = used or name == found.current
    said = f"Context {name} is {servers[name]}{', and in use' if current else ''}."
    output({"name": name, "bootstrap_server": servers[name], "current": current}, [said], as_json=as_json)


@context.command()
@click.argument("name", shell_complete=complete_context)
@json_option
def use(name: str, as_json: bool) -> None:
    """Have commands ask the cluster NAME from now on.

    Example: minikafka context use prod
    """
    found = read_contexts()
    addresses = found.find(name)
    write_contexts(replace(found, current=name))
    details = {"name": name, "bootstrap_server": addresses, "current": True}
    output(details, [f"Commands now ask {name} ({addresses})."], as_json=as_json)


@context.command()
@click.argument("name", shell_complete=complete_context)
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove the context NAME. The cluster is left as it is.

    Example: minikafka context remove prod
    """
    found = read_contexts()
    found.find(name)
    servers = {other: one for other, one in found.bootstrap_servers.items() if other != name}
    was_used = found.current == name
    write_contexts(Contexts(servers, "" if was_used else found.current))
    said = f"Removed context {name}{', which was in use: now none is' if was_used else ''}."
    output({"removed": name, "was_current": was_used}, [said], as_json=as_json)
