"""`--command-config`: a `client.properties` file with Kafka's settings of clients, such as those of TLS and SASL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from minikafka.cli.terminal.output import echo
from minikafka.protocol.counted import counted
from minikafka.protocol.shortened import shortened

if TYPE_CHECKING:
    from minikafka.client.options import ClientOptions

IGNORED_NAMES_MAX = 10
"""The most settings of a file that are named as ignored; a file with more is probably of another kind."""


@dataclass(frozen=True)
class ClientProperties:
    """The settings of a file, by Kafka's names; none without a file."""

    path: str = ""
    settings: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def bootstrap_servers(self) -> str | None:
        return self.settings.get("bootstrap.servers")

    def options_of(self, kind: type[ClientOptions]) -> list[tuple[str, str]]:
        """The settings that a client has, as pairs of an option's name and its text.

        Settings of other clients and functions are left out, since one file serves all commands. What no client has is
        named on standard error, as by Kafka's tools (`IGNORED_NAMES_MAX` at most); but a setting of security is passed
        on, so that the client refuses it.
        """
        from minikafka.client.options import AdminOptions, ConsumerOptions, ProducerOptions
        from minikafka.client.security.security_options import security_settings

        of_security = security_settings(self.settings)
        known = {item.name for client in (AdminOptions, ConsumerOptions, ProducerOptions) for item in fields(client)}
        own = {item.name for item in fields(kind)} - kind.functions() - {"bootstrap_servers"}
        pairs, ignored = [], []
        for name, text in self.settings.items():
            option_name = name.replace(".", "_")
            if option_name in own or name in of_security:
                pairs.append((name, text))
            elif option_name not in known and not name.startswith("sasl."):
                ignored.append(name)
        self._name_ignored(ignored)
        return pairs

    def _name_ignored(self, names: list[str]) -> None:
        for name in names[:IGNORED_NAMES_MAX]:
            echo(f"{self.path}: {shortened(name)} is ignored: no client of minikafka has it", err=True)
        if (more := len(names) - IGNORED_NAMES_MAX) > 0:
            echo(f"{self.path}: {counted(more, 'more setting')} ignored", err=True)


def read_client_properties(path: str) -> ClientProperties:
    """Read a file. Raises click.ClickException, which never shows the file's content."""
    from minikafka.broker.settings.properties_file import PropertiesError, bytes_of, read_properties

    try:
        settings = read_properties(bytes_of(Path(path)))
        return ClientProperties(path, {name: text.strip() for name, text in settings.items()})
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror}") from None
    except PropertiesError as error:
        raise click.ClickException(f"{path}, {error}") from None
