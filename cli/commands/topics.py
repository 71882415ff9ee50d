"""`minikafka topics`: lists, describes and changes topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.arguments.options import NameValue, check_settings, client_options, no_topic
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import SET_BY, echo, echo_json, json_option, output, report
from minikafka.cli.terminal.tables import numbers, table
from minikafka.protocol.counted import counted
from minikafka.protocol.names import INTERNAL_TOPICS

if TYPE_CHECKING:
    from minikafka.client import Admin, ConfigEntry, KafkaError
    from minikafka.client.connections.cluster_metadata import Partition, Topic

_MAPPED_ANEW = (
    "Nodes that are started again look for each group, or transactional id, in another of its partitions than before:"
    " committed offsets and open transactions are not found there."
)

config_option = click.option(
    "--config", "configs", multiple=True, type=NameValue(), help="Setting of the topic, by Kafka's name; repeatable."
)


@click.group()
def topics() -> None:
    """Create, list, describe, alter and delete topics.

    Example: minikafka topics create flights --partitions 6
    """


@topics.command()
@client_options
@click.argument("name")
@click.option(
    "--partitions", type=Whole(1, bits=32), help="Number of partitions.  [default: the broker's num.partitions]"
)
@click.option(
    "--replication-factor",
    type=Whole(1, bits=16),
    help="Number of replicas of each partition.  [default: the broker's default.replication.factor]",
)
@config_option
@click.option("--if-not-exists", is_flag=True, help="Exit with 0 if the topic already exists.")
@json_option
def create(
    bootstrap_server: str,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[tuple[str, str], ...],
    if_not_exists: bool,
    as_json: bool,
) -> None:
    """Create a topic.

    \b
    Examples:
      minikafka topics create flights --partitions 6 --config retention.ms=3600000
      minikafka topics create flights --if-not-exists
    """
    from minikafka.protocol.errors import TopicAlreadyExistsError

    async def work(admin: Admin) -> None:
        said = f"Created topic {name}."
        try:
            await admin.create_topic(
                name,
                partitions=partitions or -1,
                replication_factor=replication_factor or -1,
                configs=dict(configs),
            )
        except TopicAlreadyExistsError:
            if not if_not_exists:
                raise
            said = f"Topic {name} already exists."
        output({"name": name, "created": said.startswith("Created")}, [said], as_json=as_json)

    with_admin(bootstrap_server, work)


@topics.command("list")
@client_options
@click.option("--internal", is_flag=True, help="Include internal topics, such as __consumer_offsets.")
@json_option
def list_topics(bootstrap_server: str, internal: bool, as_json: bool) -> None:
    """List all topics.

    \b
    Examples:
      minikafka topics list
      minikafka topics list --internal --json
    """

    async def work(admin: Admin) -> None:
        found = [one for one in (await described(admin, None)).values() if internal or not one.is_internal]
        if as_json:
            echo_json([summary(topic) for topic in found])
        elif found:
            rows = [[one.name, len(one.partitions), replication_factor_of(one)] for one in found]
            echo("\n".join(table(("topic", "partitions", "replicas"), rows)))

    with_admin(bootstrap_server, work)


@topics.command()
@client_options
@click.argument("names", nargs=-1)
@click.option("--under-replicated", is_flag=True, help="Show only partitions with replicas that are not in sync.")
@click.option("--unavailable", is_flag=True, help="Show only partitions without a leader.")
@json_option
def describe(
    bootstrap_server: str, names: tuple[str, ...], under_replicated: bool, unavailable: bool, as_json: bool
) -> None:
    """Show the partitions and the settings of topics.

    Shows leader, replicas and in-sync replicas of each partition, and the settings that differ from their default.
    Without NAMES, shows all topics except internal ones; with --under-replicated or --unavailable, these too.

    \b
    Examples:
      minikafka topics describe flights
      minikafka topics describe --under-replicated
      minikafka topics describe --json
    """

    def wanted(one: Partition) -> bool:
        lacks = len(one.in_sync_replicas) < len(one.replicas)
        return (lacks or not under_replicated) and (one.leader < 0 or not unavailable)

    async def work(admin: Admin) -> None:
        found = await described(admin, names or None)
        missing = [name for name in names if name not in found]
        filtered = under_replicated or unavailable
        chosen = [one for one in found.values() if names or filtered or not one.is_internal]
        if filtered:
            chosen = [some for one in chosen if (some := part_of(one, wanted)).partitions]
        settings, errors = await settings_of(admin, chosen)
        shown = "\n\n".join("\n".join(description(one, settings[one.name])) for one in chosen)
        errors += [one for name in missing for one in (await no_topic(admin, name, bootstrap_server)).failures]
        described_ones = [details(one, settings[one.name]) for one in chosen]
        report(described_ones, shown.split("\n") if chosen else [], errors, done=len(chosen), as_json=as_json)

    with_admin(bootstrap_server, work)


@topics.command()
@client_options
@click.argument("name")
@click.option("--partitions", type=Whole(1, bits=32), help="New number of partitions; it can only increase.")
@config_option
@click.option(
    "--delete-config", "deleted", multiple=True, metavar="NAME", help="Reset a setting to its default; repeatable."
)
@json_option
def alter(
    bootstrap_server: str,
    name: str,
    partitions: int | None,
    configs: tuple[tuple[str, str], ...],
    deleted: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add partitions to a topic, or change its settings.

    \b
    Examples:
      minikafka topics alter flights --partitions 12
      minikafka topics alter flights --config retention.ms=60000 --delete-config segment.bytes
    """
    from minikafka.protocol.errors import UnknownTopicOrPartitionError

    if not (partitions or configs or deleted):
        raise click.UsageError("nothing to alter: give --partitions, --config or --delete-config")

    async def work(admin: Admin) -> None:
        done: dict[str, Any] = {"name": name, "altered": 0}
        lines: list[str] = []
        try:
            if configs or deleted:
                await check_settings(admin, "topic", name, deleted)
                await admin.alter_configs("topic", name, set=dict(configs), delete=deleted)
                done["altered"] = len(configs) + len(deleted)
                lines.append(f"Altered {counted(done['altered'], 'setting')} of topic {name}.")
            if partitions:
                await admin.create_partitions(name, partitions)
                done["partitions"] = partitions
                lines.append(f"Topic {name} now has {counted(partitions, 'partition')}.")
                if name in INTERNAL_TOPICS:
                    lines.append(_MAPPED_ANEW)
        except UnknownTopicOrPartitionError:
            raise await no_topic(admin, name, bootstrap_server) from None
        finally:
            if lines:
                output(done, lines, as_json=as_json)

    with_admin(bootstrap_server, work)


@topics.command()
@client_options
@click.argument("names", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="Ignore topics that do not exist.")
@json_option
def delete(bootstrap_server: str, names: tuple[str, ...], if_exists: bool, as_json: bool) -> None:
    """Delete topics, with all their records.

    \b
    Examples:
      minikafka topics delete flights
      minikafka topics delete flights weather --if-exists
    """
    from minikafka.protocol.errors import UnknownTopicOrPartitionError

    async def work(admin: Admin) -> None:
        results: Mapping[str, KafkaError | None] = await admin.delete_topics(names)
        deleted = [name for name, error in results.items() if error is None]
        errors: list[Any] = []
        for name, error in results.items():
            missing = isinstance(error, UnknownTopicOrPartitionError)
            if error is not None and not (missing and if_exists):
                errors += (await no_topic(admin, name, bootstrap_server)).failures if missing else [error]
        said = [f"Deleted topic {name}." for name in deleted]
        report({"deleted": deleted}, said, errors, done=len(deleted), as_json=as_json)

    with_admin(bootstrap_server, work)


async def described(admin: Admin, names: Sequence[str] | None) -> dict[str, Topic]:
    """The existing topics, sorted by name. Raises KafkaError, but not for a topic that does not exist."""
    from minikafka.protocol.errors import KafkaError, UnknownTopicOrPartitionError

    found: dict[str, Topic] = {}
    for name, one in sorted((await admin.describe_topics(names)).items()):
        if isinstance(one, KafkaError):
            if not isinstance(one, UnknownTopicOrPartitionError):
                raise one
        else:
            found[name] = one
    return found


async def settings_of(
    admin: Admin, topics: Iterable[Topic]
) -> tuple[dict[str, list[ConfigEntry] | None], list[object]]:
    """By topic, the settings that differ from their default, None where the user may not see them; and what to tell of
    the latter. DESCRIBE on a topic shows its partitions, but not its settings."""
    from minikafka.protocol.errors import TopicAuthorizationFailedError

    settings: dict[str, list[ConfigEntry] | None] = {}
    errors: list[object] = []
    for one in topics:
        try:
            settings[one.name] = await differing(admin, one.name)
        except TopicAuthorizationFailedError as error:
            settings[one.name] = None
            errors.append(f"settings of {error} (they need DESCRIBE_CONFIGS on the topic)")
    return settings, errors


async def differing(admin: Admin, name: str) -> list[ConfigEntry]:
    """A topic's settings that differ from their default, sorted by name."""
    settings = await admin.describe_configs("topic", name)
    return sorted((one for one in settings.values() if not one.is_default), key=lambda one: one.name)


def part_of(topic: Topic, wanted: Callable[[Partition], bool]) -> Topic:
    """A topic with only the `wanted` partitions."""
    from dataclasses import replace

    return replace(topic, partitions=tuple(filter(wanted, topic.partitions)))


def description(topic: Topic, settings: Sequence[ConfigEntry] | None) -> list[str]:
    """A topic as text."""
    from minikafka.protocol.names import uuid_text

    kind = ", internal" if topic.is_internal else ""
    partitions = [
        [one.index, one.leader if one.leader >= 0 else "none", numbers(one.replicas), numbers(one.in_sync_replicas)]
        for one in topic.partitions
    ]
    lines = [f"{topic.name} (id {uuid_text(topic.topic_id)}, {counted(len(topic.partitions), 'partition')}{kind})"]
    lines += table(("partition", "leader", "replicas", "in sync"), partitions, indent="  ")
    if settings:
        rows = [[one.name, shown(one), SET_BY.get(one.source, "?")] for one in settings]
        lines += ["", *table(("setting", "value", "set by"), rows, indent="  ")]
    return lines


def shown(setting: ConfigEntry) -> str:
    """A setting's value, hidden if it is sensitive."""
    return "(hidden)" if setting.sensitive else repr(setting.value) if not setting.value else setting.value


def summary(topic: Topic) -> dict[str, Any]:
    """A topic of the list, for JSON."""
    from minikafka.protocol.names import uuid_text

    return {
        "name": topic.name,
        "id": uuid_text(topic.topic_id),
        "partitions": len(topic.partitions),
        "replication_factor": replication_factor_of(topic),
        "internal": topic.is_internal,
    }


def details(topic: Topic, settings: Sequence[ConfigEntry] | None) -> dict[str, Any]:
    """The description of a topic, for JSON; null for settings that are not known."""
    partitions = [partition_details(one) for one in topic.partitions]
    configs = None if settings is None else {one.name: one.value for one in settings}
    return {**summary(topic), "partitions": partitions, "configs": configs}


def partition_details(partition: Partition) -> dict[str, Any]:
    """A partition, for JSON; leader -1 for none."""
    return {
        "partition": partition.index,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "in_sync_replicas": list(partition.in_sync_replicas),
        "offline_replicas": list(partition.offline_replicas),
    }


def replication_factor_of(topic: Topic) -> int:
    """The number of replicas of the first partition, which is the factor at creation."""
    return len(topic.partitions[0].replicas) if topic.partitions else 0
