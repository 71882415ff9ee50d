"""`minikafka storage`: formats data directories, and shows their metadata, like Kafka's `kafka-storage`."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from minikafka.cli.arguments.numbers import whole
from minikafka.cli.arguments.options import NameValue
from minikafka.cli.commands.controller_identity import config_in
from minikafka.cli.terminal.output import json_option, output

if TYPE_CHECKING:
    from minikafka.controller.metadata.records import ScramRecord

_OPTIONS_OF_VOTERS = "--standalone, --initial-controllers and --no-initial-controllers"
_CLUSTER_ID = re.compile(r"[\x21-\x7e]+")

config_option = click.option(
    "-c",
    "--config",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file of the node, in the format of Kafka's server.properties.",
)


@click.group()
def storage() -> None:
    """Format data directories before the first start of a node, and show what they contain.

    Formatting is needed only if the cluster's voters are to come and go (KIP-853), or if it gets its first users with
    --add-scram.

    Example: minikafka storage info --config server.properties
    """


@storage.command("format")
@config_option
@click.option(
    "-t", "--cluster-id", required=True,
    help="Id of the cluster, the same on all nodes; `storage random-uuid` makes one.",
)
@click.option("-s", "--standalone", is_flag=True, help="Make this controller the first and only voter.")
@click.option(
    "-I",
    "--initial-controllers",
    metavar="ID@HOST:PORT:DIRECTORY_ID,...",
    help="The first voters; give each of them the same list. DIRECTORY_ID is another `random-uuid` for each voter.",
)
@click.option("-N", "--no-initial-controllers", is_flag=True, help="Format a node that joins an existing quorum.")
@click.option(
    "-r", "--release-version",
    help="Level of metadata.version, such as 4.3 or 4.3-IV0.  [default: the latest]",
)
@click.option(
    "-f", "--feature", "features", multiple=True, type=NameValue(), metavar="NAME=LEVEL",
    help="Level of a feature, such as transaction.version=2; repeatable.",
)
@click.option(
    "-S",
    "--add-scram",
    "users",
    multiple=True,
    metavar="MECHANISM=[name=USER,password=PASSWORD]",
    help="First user of a new cluster; repeatable. Give each controller the same users.",
)
@click.option("-g", "--ignore-formatted", is_flag=True, help="Skip directories that are formatted already.")
@json_option
def format_(
    config: Path,
    cluster_id: str,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    release_version: str | None,
    features: tuple[tuple[str, str], ...],
    users: tuple[str, ...],
    ignore_formatted: bool,
    as_json: bool,
) -> None:
    """Format the data directories of a node, which must not run.

    \b
    Examples:
      minikafka storage format -c server.properties -t 5L6g3nShT-eMCtK--X86sw --standalone
      minikafka storage format -c server.properties -t 5L6g3nShT-eMCtK--X86sw --no-initial-controllers
    """
    from minikafka.broker.node import format as formatting
    from minikafka.controller.metadata.formatted_levels import Formatted
    from minikafka.storage.directories.directory_identity import WrongDirectory
    from minikafka.storage.disks.disk import RealDisk

    if standalone + no_initial_controllers + (initial_controllers is not None) > 1:
        raise click.UsageError(f"only one of {_OPTIONS_OF_VOTERS} can be used")
    if not _CLUSTER_ID.fullmatch(cluster_id):
        raise click.UsageError("--cluster-id must not be empty, and has no blanks")
    settings = config_in(config)
    voters = formatting.Voters(standalone, initial_controllers, no_initial_controllers)
    is_fixed = bool(settings.values["controller.quorum.voters"])
    generator = random.SystemRandom()
    try:
        levels = formatting.feature_levels(release_version, levels_of(features), voters=voters, fixed=is_fixed)
        lines = formatting.format_directories(
            RealDisk(),
            settings,
            cluster_id,
            formatted=Formatted(levels, _users(users, generator)),
            voters=formatting.first_voters(settings, voters, generator),
            ignore_formatted=ignore_formatted,
            now_ms=time.time_ns() // 1_000_000,
            random=generator,
        )
    except (formatting.CannotFormat, WrongDirectory) as error:
        raise click.ClickException(str(error)) from error
    output({"cluster_id": cluster_id, "done": lines}, lines, as_json=as_json)


def _users(texts: tuple[str, ...], generator: random.Random) -> tuple[ScramRecord, ...]:
    """The users of --add-scram. Raises click.UsageError."""
    from minikafka.broker.node.first_users import InvalidUser, first_users

    try:
        return first_users(texts, generator)
    except InvalidUser as error:
        raise click.UsageError(f"--add-scram: {error}") from error


@storage.command()
@config_option
@json_option
def info(config: Path, as_json: bool) -> None:
    """Show the data directories of a node, and their problems.

    Prints what their `meta.properties` say. The exit code is 1 if there are problems.

    Example: minikafka storage info --config server.properties
    """
    from minikafka.controller.settings.metadata_log_settings import data_directories, metadata_directory
    from minikafka.storage.disks.checkpoint_files import META_PROPERTIES, BrokenCheckpoint, read_properties
    from minikafka.storage.disks.disk import RealDisk

    static = config_in(config).static
    disk, present, problems = RealDisk(), list[str](), list[str]()
    found: dict[str, dict[str, str]] = {}
    for directory in dict.fromkeys([metadata_directory(static), *data_directories(static)]):
        if not disk.is_directory(directory):
            problems.append(f"{directory} {'is no directory' if disk.exists(directory) else 'does not exist'}")
            continue
        present.append(directory)
        try:
            properties = read_properties(disk, f"{directory}/{META_PROPERTIES}")
        except BrokenCheckpoint as error:
            problems.append(str(error))
            continue
        if properties is None:
            problems.append(f"{directory} is not formatted.")
        else:
            found[directory] = properties
    details = {"directories": present, "metadata": found, "problems": problems}
    output(details, lines_of(present, found, problems), as_json=as_json)
    if problems:
        raise click.exceptions.Exit(1)


def lines_of(present: list[str], found: dict[str, dict[str, str]], problems: list[str]) -> list[str]:
    """The output of `info`, as Kafka's tool prints it, but with the properties of each directory."""
    lines = []
    if present:
        lines += [f"Found log director{'y' if len(present) == 1 else 'ies'}:", *(f"  {one}" for one in present), ""]
    for directory, properties in found.items():
        shown = ", ".join(f"{name}={value}" for name, value in sorted(properties.items()))
        lines.append(f"Found metadata in {directory}: {{{shown}}}")
    if problems:
        blank = [""] if found else []
        lines += [*blank, f"Found problem{'s' if problems[1:] else ''}:", *(f"  {one}" for one in problems)]
    return lines


@storage.command("random-uuid")
@json_option
def random_uuid(as_json: bool) -> None:
    """Print a new id, for a cluster or a directory.

    Example: minikafka storage random-uuid
    """
    from minikafka.controller.metadata.cluster_ids import new_cluster_id

    drawn = new_cluster_id(random.SystemRandom())
    output(drawn, [drawn], as_json=as_json)


def levels_of(features: tuple[tuple[str, str], ...]) -> dict[str, int]:
    """Convert levels to numbers, by feature. Raises click.UsageError for a level that is not a number."""
    found: dict[str, int] = {}
    for name, level in features:
        number = whole(level, bits=16, least=0)
        if number is None:
            raise click.UsageError(f"--feature {name}={level}: a level is a number")
        found[name] = number
    return found
