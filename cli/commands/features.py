"""`minikafka features`: shows and changes the feature levels of a cluster, like Kafka's `kafka-features` (KIP-584)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from minikafka.cli.arguments.numbers import whole
from minikafka.cli.arguments.options import (
    NameValue,
    broker_option,
    check_broker,
    client_or_controller_options,
    dry_run_option,
)
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import json_option, output
from minikafka.cli.terminal.tables import table

if TYPE_CHECKING:
    from minikafka.client import Admin

DOWNGRADE = {False: "safe_downgrade", True: "unsafe_downgrade"}
levels_argument = click.argument("levels", nargs=-1, required=True, type=NameValue(), metavar="NAME=LEVEL...")
unsafe_option = click.option("--unsafe", is_flag=True, help="Allow a change by which metadata may be lost.")


@click.group()
def features() -> None:
    """Describe and change the features of a cluster and their levels.

    Example: minikafka features describe
    """


@features.command()
@client_or_controller_options
@broker_option
@json_option
def describe(bootstrap_server: str, broker: int | None, as_json: bool) -> None:
    """Show the levels of features.

    Shows the finalized level of each feature, and the levels that a broker supports.

    \b
    Examples:
      minikafka features describe
      minikafka features describe --broker 1 --json
    """

    async def work(admin: Admin) -> None:
        await check_broker(admin, broker)
        found = await admin.describe_features(broker)
        details = {"epoch": found.epoch, "features": [asdict(one) for one in found.features]}
        rows = [[one.name, one.level, shown(one.supported_min), shown(one.supported_max)] for one in found.features]
        lines = [f"epoch {found.epoch}", *table(("feature", "level", "lowest", "highest"), rows, indent="  ")]
        output(details, lines, as_json=as_json)

    with_admin(bootstrap_server, work)


@features.command()
@client_or_controller_options
@levels_argument
@dry_run_option
@json_option
def upgrade(bootstrap_server: str, levels: tuple[tuple[str, str], ...], dry_run: bool, as_json: bool) -> None:
    """Raise the level of features: of all that are named, or of none.

    Example: minikafka features upgrade transaction.version=2 --dry-run
    """
    update(bootstrap_server, numbers_of(levels), "upgrade", dry_run=dry_run, as_json=as_json)


@features.command()
@client_or_controller_options
@levels_argument
@unsafe_option
@dry_run_option
@json_option
def downgrade(
    bootstrap_server: str, levels: tuple[tuple[str, str], ...], unsafe: bool, dry_run: bool, as_json: bool
) -> None:
    """Lower the level of features: of all that are named, or of none.

    Example: minikafka features downgrade transaction.version=1 --dry-run
    """
    update(bootstrap_server, numbers_of(levels), DOWNGRADE[unsafe], dry_run=dry_run, as_json=as_json)


@features.command()
@client_or_controller_options
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@unsafe_option
@dry_run_option
@json_option
def disable(bootstrap_server: str, names: tuple[str, ...], unsafe: bool, dry_run: bool, as_json: bool) -> None:
    """Disable features: their level becomes 0.

    Example: minikafka features disable transaction.version --dry-run
    """
    update(bootstrap_server, dict.fromkeys(names, 0), DOWNGRADE[unsafe], dry_run=dry_run, as_json=as_json)


def update(
    bootstrap_server: str, levels: Mapping[str, int], upgrade_type: str, *, dry_run: bool, as_json: bool
) -> None:
    """Change feature levels and print the result. Raises the errors of `with_admin`."""

    async def work(admin: Admin) -> None:
        await admin.update_features(levels, upgrade_type=upgrade_type, validate_only=dry_run)
        word = "can be set to" if dry_run else "is now at"
        details = [{"feature": name, "level": level, "changed": not dry_run} for name, level in levels.items()]
        output(details, [f"{name} {word} level {level}." for name, level in levels.items()], as_json=as_json)

    with_admin(bootstrap_server, work)


def numbers_of(levels: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Convert levels to numbers, by feature. Raises click.UsageError for a level that is not a number."""
    found: dict[str, int] = {}
    for name, level in levels:
        number = whole(level, bits=16, least=0)
        if number is None:
            raise click.UsageError(f"{name}={level}: a level is a number; `minikafka features describe` lists them")
        found[name] = number
    return found


def shown(level: int | None) -> object:
    """A level that a broker supports, for the table; `-` if the broker does not know the feature."""
    return "-" if level is None else level
