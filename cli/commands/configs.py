"""`minikafka configs`: describes and alters the settings of brokers, topics and groups, and the quotas of clients.

Quotas of clients, users and IP addresses have their own requests, but are asked for in the same way as settings
(`client_quotas.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.numbers import whole
from minikafka.cli.arguments.options import (
    NameValue,
    check_broker,
    check_settings,
    client_or_controller_options,
    dry_run_option,
    no_topic,
)
from minikafka.cli.commands.client_quotas import QUOTA_KINDS, alter_quotas, entity_of, quota_details, quota_lines
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.failures import closest
from minikafka.cli.terminal.output import SET_BY, echo, json_option, output
from minikafka.cli.terminal.tables import table
from minikafka.protocol.counted import counted

if TYPE_CHECKING:
    from minikafka.client import Admin, ConfigEntry

RESOURCE_KINDS = ("broker", "topic", "group", "client-metrics")
KINDS = (*RESOURCE_KINDS, *QUOTA_KINDS)
kind_argument = click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
name_argument = click.argument("name", required=False)
default_option = click.option(
    "--default", "is_default", is_flag=True,
    help="Instead of a NAME: the default of all brokers, clients, users or IP addresses.",
)
client_id_option = click.option(
    "--client-id", metavar="NAME",
    help="With KIND user: only connections with this client id.",
)


@click.group()
def configs() -> None:
    """Describe and alter the settings of brokers, topics and groups, and the quotas of clients, users and IP addresses.

    Example: minikafka configs describe topic flights
    """


@configs.command()
@client_or_controller_options
@kind_argument
@name_argument
@default_option
@client_id_option
@click.option("--all", "everything", is_flag=True, help="Show settings at their default too.")
@json_option
def describe(
    bootstrap_server: str,
    kind: str,
    name: str | None,
    is_default: bool,
    client_id: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Show settings, and where their values come from.

    Shows the settings that differ from their default, and the values that each overrides. KIND is broker, topic, group,
    client-metrics, client, user or ip. Without a NAME, shows all of that kind.

    \b
    Examples:
      minikafka configs describe broker 1 --all
      minikafka configs describe topic flights
      minikafka configs describe client --json
    """
    check_target(kind, name, client_id, is_default=is_default)

    async def work(admin: Admin) -> None:
        if kind in QUOTA_KINDS:
            details = await quota_details(admin, kind, entity_of(kind, name, client_id, is_default=is_default))
            output(details, quota_lines(details), as_json=as_json)
            return
        names = [""] if is_default else [name] if name is not None else await all_names(admin, kind)
        found = [await resource_details(admin, kind, one, bootstrap_server, everything=everything) for one in names]
        shown = [one for one in found if one["configs"] or name is not None or is_default]
        output(shown, [line for one in shown for line in resource_lines(one)], as_json=as_json)

    with_admin(bootstrap_server, work)


@configs.command()
@client_or_controller_options
@kind_argument
@name_argument
@default_option
@client_id_option
@click.option("--set", "settings", multiple=True, type=NameValue(), help="New value of a setting; repeatable.")
@click.option("--delete", "deleted", multiple=True, metavar="NAME", help="Reset a setting to its default; repeatable.")
@click.option(
    "--append", "appended", multiple=True, type=NameValue(),
    help="Add a value to a setting that is a list; repeatable.",
)
@click.option(
    "--subtract", "subtracted", multiple=True, type=NameValue(),
    help="Remove a value from a setting that is a list; repeatable.",
)
@dry_run_option
@json_option
def alter(
    bootstrap_server: str,
    kind: str,
    name: str | None,
    is_default: bool,
    client_id: str | None,
    settings: tuple[tuple[str, str], ...],
    deleted: tuple[str, ...],
    appended: tuple[tuple[str, str], ...],
    subtracted: tuple[tuple[str, str], ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Change settings: all that are given, or none.

    KIND is broker, topic, group, client-metrics, client, user or ip. Settings that are not given stay as they are.

    \b
    Examples:
      minikafka configs alter topic flights --set retention.ms=3600000 --delete segment.bytes
      minikafka configs alter broker --default --set log.cleaner.threads=2 --dry-run
      minikafka configs alter client app --set producer_byte_rate=1048576
    """
    check_target(kind, name, client_id, is_default=is_default)
    if name is None and not is_default:
        raise click.UsageError(f"which {kind}? Give its name" + ("" if kind in CANNOT_DEFAULT else " or --default"))
    changes: dict[str, Any] = {"append": dict(appended), "subtract": dict(subtracted)}
    changes |= {"set": dict(settings), "delete": deleted}
    count = sum(map(len, changes.values()))
    if not count:
        raise click.UsageError("nothing to alter: give --set, --delete, --append or --subtract")
    if kind in QUOTA_KINDS and (appended or subtracted):
        raise click.UsageError("quotas are numbers, not lists: --append and --subtract are for settings")

    async def work(admin: Admin) -> None:
        if kind in QUOTA_KINDS:
            entity = entity_of(kind, name, client_id, is_default=is_default)
            await alter_quotas(admin, entity, settings, deleted, dry_run=dry_run)
        else:
            await check_resource(admin, kind, name or "", bootstrap_server)
            await check_settings(admin, kind, name or "", deleted)
            await admin.alter_configs(kind, name or "", validate_only=dry_run, **changes)
            warn_of_unknown(kind, [one for one, _ in settings])
        said = f"{'Would alter' if dry_run else 'Altered'} {counted(count, 'setting')} of {shown_name(kind, name)}."
        output({"kind": kind, "name": name, "altered": 0 if dry_run else count}, [said], as_json=as_json)

    with_admin(bootstrap_server, work)


def warn_of_unknown(kind: str, names: Iterable[str]) -> None:
    """Warn of broker settings that are probably mistyped: brokers keep unknown settings, as Kafka does for plug-ins."""
    from minikafka.protocol.settings.registry import NODE_SETTINGS, listener_base_name

    for name in names:
        unknown = kind == "broker" and name not in NODE_SETTINGS and listener_base_name(name) is None
        if unknown and (meant := closest(name, NODE_SETTINGS)):
            said = f"{name} is no setting of a broker, which keeps it all the same; did you mean {meant}?"
            echo(f"Warning: {said}", err=True)


CANNOT_DEFAULT = ("topic", "group", "client-metrics")


def check_target(kind: str, name: str | None, client_id: str | None, *, is_default: bool) -> None:
    """Raise click.UsageError for a combination of kind, name and options that names nothing."""
    if is_default and name is not None:
        raise click.UsageError("NAME and --default are mutually exclusive")
    if is_default and kind in CANNOT_DEFAULT:
        raise click.UsageError(f"a {kind} has no cluster-wide default of its own: `configs alter broker --default` has")
    if client_id is not None and kind != "user":
        raise click.UsageError("--client-id is for users; for a client id alone: `configs describe client NAME`")
    if client_id is not None and name is None and not is_default:
        raise click.UsageError("--client-id needs a user: its name or --default")
    if kind == "broker" and name is not None and whole(name, bits=32, least=0) is None:
        raise click.UsageError(f"{name!r} is not the id of a broker; `minikafka brokers` lists them")


def shown_name(kind: str, name: str | None) -> str:
    """A resource as part of a sentence."""
    return f"all {kind}s by default" if name is None else f"{kind} {name}"


async def check_resource(admin: Admin, kind: str, name: str, bootstrap_server: str) -> None:
    """Raise click.ClickException if a topic or broker does not exist. The broker reports all other errors itself."""
    from minikafka.protocol.errors import UnknownTopicOrPartitionError

    if kind == "broker" and name:
        await check_broker(admin, int(name))
    if kind == "topic" and isinstance((await admin.describe_topics([name]))[name], UnknownTopicOrPartitionError):
        raise await no_topic(admin, name, bootstrap_server)


async def all_names(admin: Admin, kind: str) -> list[str]:
    """The names of all brokers or topics, and of all groups and subscriptions that have settings."""
    if kind == "broker":
        return [str(one.node_id) for one in (await admin.describe_cluster()).brokers]
    if kind == "topic":
        return await admin.list_topics(include_internal=True)
    return await admin.list_config_resources(kind)


async def resource_details(
    admin: Admin, kind: str, name: str, bootstrap_server: str, *, everything: bool
) -> dict[str, Any]:
    """A resource with its settings, for JSON. Raises KafkaError, click.ClickException."""
    await check_resource(admin, kind, name, bootstrap_server)
    found = await admin.describe_configs(kind, name, synonyms=True)
    chosen = [one for _, one in sorted(found.items()) if everything or not one.is_default]
    return {"kind": kind, "name": name or None, "configs": [entry_details(one) for one in chosen]}


def entry_details(one: ConfigEntry) -> dict[str, Any]:
    """A setting for JSON; the first of its synonyms is the effective value."""
    return {
        "name": one.name,
        "value": one.value,
        "set_by": SET_BY.get(one.source, "unknown"),
        "read_only": one.read_only,
        "sensitive": one.sensitive,
        "synonyms": [
            {"name": some.name, "value": some.value, "set_by": SET_BY.get(some.source, "unknown")}
            for some in one.synonyms
        ],
    }


def resource_lines(details: dict[str, Any]) -> list[str]:
    """A resource and its settings as text."""
    title = f"{details['kind']} {details['name']}" if details["name"] else f"all {details['kind']}s"
    if not details["configs"]:
        return [f"{title}: all settings are at their default"]
    rows = [
        [one["name"], value_text(one), one["set_by"], overridden(one["synonyms"][1:])] for one in details["configs"]
    ]
    return [title, *table(("setting", "value", "set by", "overrides"), rows, indent="  ")]


def value_text(one: dict[str, Any]) -> str:
    """A value as text; hidden if it is sensitive."""
    if one["sensitive"]:
        return "(hidden)"
    return one["value"] or repr(one["value"])


def overridden(synonyms: Sequence[dict[str, Any]]) -> str:
    """The values that a setting overrides, with the places where they are set."""
    return ", ".join(places(synonyms)) or "-"


def places(synonyms: Iterable[dict[str, Any]]) -> list[str]:
    """Each synonym as text: `log.retention.ms=60000 (server file)`."""
    return [f"{one['name']}={one['value']} ({one['set_by']})" for one in synonyms]
