"""Contexts: named clusters in a file of the user, so that commands need no address.

    ~/.config/minikafka/contexts.json: {"current": "prod", "contexts": {"prod": {"bootstrap_server": "a:9092"}}}

A context of a secured cluster has the path of a client.properties file as well: `"command_config": "/home/a/prod"`.

This is the path on Linux, where XDG_CONFIG_HOME may replace ~/.config; on other platforms the file is in the platform's
directory for configuration. The file is replaced as a whole: a command that is interrupted leaves the old file.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from minikafka.cli.arguments.json_files import read_json

DEFAULT_PORT = 9092
DEFAULT_BOOTSTRAP_SERVER = f"127.0.0.1:{DEFAULT_PORT}"


@dataclass(frozen=True)
class NamedCluster:
    """A cluster: its bootstrap servers, and the path of a client.properties file, "" for none."""

    bootstrap_server: str
    command_config: str = ""


@dataclass(frozen=True)
class Contexts:
    """The contents of the file: clusters by context, and the name of the current context, "" for none."""

    clusters: Mapping[str, NamedCluster] = field(default_factory=dict)
    current: str = ""

    def find(self, name: str) -> NamedCluster:
        """The cluster of a context. Raises click.ClickException for one that does not exist."""
        if name not in self.clusters:
            known = ", ".join(sorted(self.clusters)) or "none yet"
            raise click.ClickException(
                f"there is no context {name!r} in {contexts_file()} (known: {known}): "
                f"`minikafka context add {name} HOST:PORT` adds it"
            )
        return self.clusters[name]


def contexts_file() -> Path:
    """The path of the file of contexts of this user."""
    return Path(click.get_app_dir("minikafka")) / "contexts.json"


def read_contexts() -> Contexts:
    """The contexts of this user; none if there is no file. Raises click.ClickException for a file of another format."""
    path = contexts_file()
    try:
        return read_json(path, _parse, "a file of contexts", "; mend or remove it, or give --bootstrap-server")
    except FileNotFoundError:
        return Contexts()


def _parse(found: Any) -> Contexts:
    clusters = {
        name: NamedCluster(entry["bootstrap_server"], entry.get("command_config", ""))
        for name, entry in found["contexts"].items()
    }
    current = found.get("current") or ""
    texts = [text for cluster in clusters.values() for text in (cluster.bootstrap_server, cluster.command_config)]
    if not all(isinstance(text, str) for text in (*texts, current)):
        raise TypeError("an address, a path or the current context is not text")
    return Contexts(clusters, current if current in clusters else "")


def write_contexts(contexts: Contexts) -> None:
    """Replace the file. Raises OSError."""
    path = contexts_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "current": contexts.current or None,
        "contexts": {name: _entry(cluster) for name, cluster in sorted(contexts.clusters.items())},
    }
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix="contexts-", suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(found, file, indent=2)
            file.write("\n")
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _entry(cluster: NamedCluster) -> dict[str, str]:
    configured = {"command_config": cluster.command_config} if cluster.command_config else {}
    return {"bootstrap_server": cluster.bootstrap_server, **configured}


def with_ports(addresses: str) -> str:
    """Add the default port to each address without a port: `localhost,b:9093` becomes `localhost:9092,b:9093`."""
    parts = [part.strip() for part in addresses.split(",")]
    return ",".join(f"{part}:{DEFAULT_PORT}" if part and lacks_port(part) else part for part in parts)


def lacks_port(address: str) -> bool:
    """Whether an address is a host name, an IPv4 address, or an IPv6 address in brackets, without a port."""
    host = address.rpartition("://")[2]
    return host.endswith("]") if host.startswith("[") else ":" not in host


def checked_addresses(addresses: str) -> str:
    """Add missing ports to addresses and check them. Raises click.BadParameter for an invalid address."""
    from minikafka.client.option_checks import parse_addresses

    complete = with_ports(addresses)
    try:
        parse_addresses(complete)
    except ValueError as error:
        raise click.BadParameter(f"{error}; expected, for example, {DEFAULT_BOOTSTRAP_SERVER}") from None
    return complete


def complete_context(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The contexts whose names begin with `incomplete`, for shells; none if the file cannot be read."""
    try:
        return sorted(name for name in read_contexts().clusters if name.startswith(incomplete))
    except (click.ClickException, OSError):
        return []
