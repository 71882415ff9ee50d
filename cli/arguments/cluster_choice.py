"""Chooses the cluster that a command asks, and the client.properties file with which it logs in there.

What is on the command line comes before what the environment says, and that before the context in use:

    --bootstrap-server, or --context              (not both)
    bootstrap.servers of --command-config
    MINIKAFKA_BOOTSTRAP_SERVER
    MINIKAFKA_CONTEXT
    bootstrap.servers of MINIKAFKA_COMMAND_CONFIG
    the context in use
    127.0.0.1:9092

The login of one cluster is not sent to another silently: a context brings its own file, or none, and then
MINIKAFKA_COMMAND_CONFIG is not used. `--command-config` always is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import click

from minikafka.cli.arguments.contexts import (
    DEFAULT_BOOTSTRAP_SERVER,
    NamedCluster,
    checked_addresses,
    read_contexts,
)


@dataclass(frozen=True, slots=True)
class OptionValue:
    """The value of an option.

    Attributes:
        value: None if the option was not given.
        is_typed: Whether the value is from the command line; else it is from the environment.
    """

    value: str | None = None
    is_typed: bool = False


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """The cluster of a command.

    Attributes:
        bootstrap_server: Its addresses.
        command_config: The path of the file of its settings, "" for none.
        note: A line for the user about the choice; "" for none.
    """

    bootstrap_server: str
    command_config: str = ""
    note: str = ""


def choose_cluster(
    servers: OptionValue, context: OptionValue, file: OptionValue, servers_of_file: str | None
) -> ClusterChoice:
    """Choose the cluster of a command.

    Args:
        servers, context, file: `--bootstrap-server`, `--context` and `--command-config`.
        servers_of_file: `bootstrap.servers` of the file.

    Raises:
        click.UsageError: Addresses and a context are on the command line.
        click.BadParameter: An address is none.
        click.ClickException: There is no such context, or their file is of another format.
    """
    if servers.is_typed and context.is_typed:
        raise click.UsageError("--bootstrap-server and --context are mutually exclusive")
    from_file = OptionValue(servers_of_file, file.is_typed)
    given = [option for option in (servers, context, from_file) if option.value is not None]
    first = next(iter(sorted(given, key=lambda option: not option.is_typed)), None)
    if first is None or first is context:
        return _of_context(context.value, file)
    assert first.value is not None, "others are left out"
    chosen = checked_addresses(first.value)
    return ClusterChoice(chosen, file.value or "", _of_other_addresses(chosen, file, servers_of_file))


def _of_context(name: str | None, file: OptionValue) -> ClusterChoice:
    """The cluster of a context, by default of that in use; without one the default address."""
    contexts = read_contexts()
    name = name or contexts.current
    if not name:
        return ClusterChoice(DEFAULT_BOOTSTRAP_SERVER, file.value or "")
    cluster = contexts.find(name)
    cluster = replace(cluster, bootstrap_server=checked_addresses(cluster.bootstrap_server))
    if file.value is None or file.is_typed:
        return ClusterChoice(cluster.bootstrap_server, file.value or cluster.command_config)
    return ClusterChoice(cluster.bootstrap_server, cluster.command_config, _left_out(name, cluster, file.value))


def _left_out(name: str, cluster: NamedCluster, file: str) -> str:
    own = cluster.command_config
    reason = f"context {name} has {own}" if own else f"context {name} has no file"
    return f"MINIKAFKA_COMMAND_CONFIG={file} is not used, since {reason}; use --command-config"


def _of_other_addresses(chosen: str, file: OptionValue, servers_of_file: str | None) -> str:
    """The note about a file of the environment that names other addresses than those that the command connects to."""
    if file.is_typed or servers_of_file is None:
        return ""
    named = checked_addresses(servers_of_file)
    if set(named.split(",")) & set(chosen.split(",")):
        return ""
    return f"MINIKAFKA_COMMAND_CONFIG={file.value} is a file for {named}, but its settings are sent to {chosen}"
