"""Options, parameter types and checks that commands share, and the arguments of the clients they create."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

import click

from minikafka.cli.arguments.client_properties import ClientProperties, read_client_properties
from minikafka.cli.arguments.cluster_choice import OptionValue, choose_cluster
from minikafka.cli.arguments.contexts import DEFAULT_BOOTSTRAP_SERVER, complete_context
from minikafka.cli.arguments.numbers import Whole, limits, whole
from minikafka.cli.arguments.times import parse_time
from minikafka.cli.terminal.failures import Failed, failure, meant
from minikafka.cli.terminal.output import echo
from minikafka.protocol.counted import counted

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.client.consumer.consumer import Consumer
    from minikafka.client.options import ClientOptions
    from minikafka.client.producer.producer import Producer

    PairType = click.ParamType[tuple[str, str]]
    BytesType = click.ParamType[bytes]
    TimeType = click.ParamType[int]
else:  # Before click 8.4 the class takes no argument.
    PairType = BytesType = TimeType = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])


class Seconds(click.FloatRange):
    """The type of an option for a number of seconds; nan and inf are refused."""

    def _describe_range(self) -> str:
        """Called by click for `--help`."""
        return limits(self)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the value. Raises click.BadParameter."""
        try:
            is_number = isfinite(float(value))
        except ValueError:
            is_number = False
        if not is_number:
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return super().convert(value, param, ctx)


_CONTEXT, _COMMAND_CONFIG = "minikafka.context", "minikafka.command_config"
_CONTROLLERS = "minikafka.controllers"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONNECT_TIMEOUT_MS = 3_000
"""The connection timeout, shorter than the clients' 10 s, so that a user soon sees that no broker is reachable."""
FIND_TOPIC_SILENTLY_MS = 500
"""The time to wait for a topic before the user is told."""
FIND_TOPIC_TIMEOUT_MS = 2_000
"""The time to wait until a broker has created a topic automatically or has applied its metadata."""


def client_options(function: F) -> F:
    """Decorate a command with `--bootstrap-server`, `--context` and `--command-config`.

    It gets the addresses as `bootstrap_server`; `client_arguments` gets the settings of the file.
    """
    given = click.option(
        "--bootstrap-server",
        "-b",
        envvar="MINIKAFKA_BOOTSTRAP_SERVER",
        show_default=f"those of the context in use, or {DEFAULT_BOOTSTRAP_SERVER}",
        show_envvar=True,
        metavar="HOST[:PORT]",
        callback=_addresses,
        help="Brokers to connect to first; separate several with commas.",
    )
    named = click.option(
        "--context",
        envvar="MINIKAFKA_CONTEXT",
        show_envvar=True,
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=_context,
        shell_complete=complete_context,
        help="Connect to the cluster of this context, with its settings; see `minikafka context`.",
    )
    configured = click.option(
        "--command-config",
        envvar="MINIKAFKA_COMMAND_CONFIG",
        show_envvar=True,
        type=click.Path(dir_okay=False),
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_command_config,
        help="A client.properties file with Kafka's settings, such as security.protocol and sasl.jaas.config.",
    )
    return given(named(configured(function)))


def client_or_controller_options(function: F) -> F:
    """Decorate a command with `client_options` and `--bootstrap-controller`, as those of Kafka's tools that have it."""
    controller = click.option(
        "--bootstrap-controller",
        metavar="HOST[:PORT]",
        is_eager=True,
        expose_value=False,
        callback=_controllers,
        help="Controllers to ask instead of brokers; separate several with commas.",
    )
    return client_options(controller(function))


def _controllers(context: click.Context, option: click.Parameter, value: str | None) -> None:
    context.meta[_CONTROLLERS] = value


def _context(context: click.Context, option: click.Parameter, value: str | None) -> None:
    context.meta[_CONTEXT] = value


def _command_config(context: click.Context, option: click.Parameter, value: str | None) -> None:
    context.meta[_COMMAND_CONFIG] = ClientProperties() if value is None else read_client_properties(value)


def _addresses(context: click.Context, option: click.Parameter, value: str | None) -> str:
    """The addresses of a command; its settings become those of the chosen cluster (`cluster_choice.py`)."""
    file: ClientProperties = context.meta[_COMMAND_CONFIG]
    servers, controllers = _option_value(context, "bootstrap_server", value), context.meta.get(_CONTROLLERS)
    if controllers is not None:
        if servers.is_typed:
            raise click.UsageError("Only one of --bootstrap-server or --bootstrap-controller can be specified")
        servers = OptionValue(controllers, is_typed=True)
    choice = choose_cluster(
        servers,
        _option_value(context, "context", context.meta.get(_CONTEXT)),
        _option_value(context, "command_config", file.path or None),
        file.bootstrap_servers,
    )
    if choice.note:
        echo(choice.note, err=True)
    if choice.command_config != file.path:
        found = read_client_properties(choice.command_config) if choice.command_config else ClientProperties()
        context.meta[_COMMAND_CONFIG] = found
    return choice.bootstrap_server


def _option_value(context: click.Context, name: str, value: str | None) -> OptionValue:
    return OptionValue(value, context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE)


dry_run_option = click.option(
    "--dry-run", is_flag=True,
    help="Only check whether the cluster accepts the change; change nothing.",
)
broker_option = click.option(
    "--broker", type=Whole(0, bits=32), metavar="ID", help="Id of the broker to ask.  [default: any]"
)


async def check_settings(admin: Admin, kind: str, name: str, given: Iterable[str]) -> None:
    """Raise click.ClickException for a setting that a resource does not have, which Kafka would reset silently."""
    from minikafka.protocol.settings.registry import NODE_SETTINGS, listener_base_name

    known = await admin.describe_configs(kind, name) if given else {}
    if kind == "broker":
        given = [one for one in given if one not in NODE_SETTINGS and listener_base_name(one) is None]
    for one in given:
        if one not in known and (known or kind == "broker"):
            names = [*known, *(NODE_SETTINGS if kind == "broker" else ())]
            raise click.ClickException(f"a {kind} has no setting {one!r}{meant(one, names)}; nothing was altered")


async def check_broker(admin: Admin, node_id: int | None) -> None:
    """Raise click.ClickException if the given broker is not a live broker of the cluster."""
    if node_id is None:
        return
    known = sorted(one.node_id for one in (await admin.describe_cluster()).brokers)
    if node_id not in known:
        listed = ", ".join(map(str, known))
        raise click.ClickException(
            f"broker {node_id} is not a live broker of this cluster, which has {listed}: "
            "`minikafka brokers` also lists fenced ones"
        )
    if node_id not in admin.cluster.metadata.brokers:
        await admin.cluster.refresh()


class NameValue(PairType):
    """The type of an option `name=value`, which is parsed to a pair."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, rest = value.partition("=")
        if not equals or not name.strip():
            self.fail(f"{value!r} is not name=value", param, ctx)
        return name.strip(), rest


class Escaped(BytesType):
    """The type of an option for a text with the escapes \\n, \\t, \\r, \\0, \\\\ and \\xHH, parsed to bytes."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value
        from minikafka.cli.records.template import unescape

        try:
            return unescape(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Time(TimeType):
    """The type of an option for a point in time, which is parsed to ms since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_time(value, time.time_ns() // 1_000_000)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def option_arguments(kind: type[ClientOptions], pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Client arguments from `--option` pairs; names may have dots or underscores, values get the option's type.

    Raises click.UsageError for options that take a function, such as a serializer. Unknown names are passed on:
    the client rejects them and lists those it accepts.
    """
    from dataclasses import fields

    types = {item.name: str(item.type) for item in fields(kind)}
    arguments: dict[str, Any] = {}
    for name, text in pairs:
        name = _argument(name)
        if name in kind.functions():
            raise click.UsageError(f"--option {name}: a function cannot be given on the command line")
        arguments[name] = _value(types.get(name, "str"), text)
    return arguments


def _value(annotation: str, text: str) -> Any:
    """Convert a text to an option's type; unchanged if it does not fit, so that the client reports allowed values."""
    if annotation == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    if "int" in annotation:
        number = whole(text)
        return text if number is None else number
    if annotation.startswith("Sequence"):
        return [part.strip() for part in text.split(",")]
    return text


def client_arguments(
    kind: type[ClientOptions], bootstrap_server: str, pairs: Sequence[tuple[str, str]] = (), **arguments: Any
) -> dict[str, Any]:
    """All arguments of a client, without those that are None; the user's `pairs` replace what a command chooses itself,
    and that replaces what the file of `--command-config` says.

    Raises click.UsageError for a pair whose option is also given by a flag of the command line, and the errors of
    `option_arguments`.
    """
    check_said_once(pairs)
    given = {name: value for name, value in arguments.items() if value is not None}
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    asked = "bootstrap_servers" if meta.get(_CONTROLLERS) is None else "bootstrap_controllers"
    ours = {asked: bootstrap_server, "socket_connection_setup_timeout_ms": CONNECT_TIMEOUT_MS}
    properties = meta.get(_COMMAND_CONFIG, ClientProperties())
    of_file = option_arguments(kind, properties.options_of(kind))
    return {"client_id": "minikafka-cli", **ours, **of_file, **given, **option_arguments(kind, pairs)}


def where_to_correct(option: str) -> str:
    """Where an option that a client refused is set, to end an error: in the file of `--command-config`; else ""."""
    context = click.get_current_context(silent=True)
    file = ClientProperties() if context is None else context.meta.get(_COMMAND_CONFIG, ClientProperties())
    setting = option.replace("_", ".")
    is_there = setting in file.settings or setting.startswith(("sasl.", "ssl.", "security."))
    return f"; see {setting} in {file.path}" if file.path and is_there else ""


SAY = {
    "bootstrap_controller": "bootstrap_controllers",
    "bootstrap_server": "bootstrap_servers",
    "context": "bootstrap_servers",
    "exits": "stop_at",
    "from_beginning": "auto_offset_reset",
    "group": "group_id",
}
"""The client option that a parameter of a command sets, if the two have different names."""


def check_said_once(pairs: Iterable[tuple[str, str]]) -> None:
    """Raise click.UsageError for an `--option` that a flag of the command line sets as well."""
    context = click.get_current_context(silent=True)
    if context is None:
        return
    typed = {_argument(name): name for name, _ in pairs}
    for flag in context.command.params:
        name = flag.name or ""
        says = SAY.get(name, name)
        if name == "offset" and context.params.get(name) in ("earliest", "latest"):
            says = "auto_offset_reset"
        if says in typed and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{flag.opts[0]} and --option {typed[says]} are mutually exclusive", context)


def _argument(option: str) -> str:
    """The name of a client argument, given the option's name in Kafka: `linger_ms` for `linger.ms`."""
    return option.replace(".", "_").replace("-", "_")


async def find_topic(client: Producer | Consumer, name: str, bootstrap_server: str) -> int:
    """A topic's number of partitions. A topic that is unknown is awaited for a moment, and the user told.

    Raises click.ClickException if the topic does not exist, KafkaError for other errors.
    """
    from anyio import move_on_after

    from minikafka.protocol.errors import UnknownTopicOrPartitionError

    try:
        with move_on_after(FIND_TOPIC_SILENTLY_MS / 1000):
            return len((await client.cluster.topic(name, FIND_TOPIC_TIMEOUT_MS)).partitions)
        echo(f"Waiting for topic {name}, which {bootstrap_server} has not named yet.", err=True)
        return len((await client.cluster.topic(name, FIND_TOPIC_TIMEOUT_MS)).partitions)
    except UnknownTopicOrPartitionError:
        raise await no_topic(client, name, bootstrap_server) from None


async def found_or_created(producer: Producer, name: str, bootstrap_server: str, *, quiet: bool) -> int:
    """A topic's number of partitions. If the broker has just created the topic, print that, unless `quiet`.

    Raises click.ClickException if the topic does not exist, KafkaError for other errors.
    """
    is_new = not await topic_exists(producer, name)
    count = await find_topic(producer, name, bootstrap_server)
    if is_new and not quiet:
        echo(f"Created topic {name} with {counted(count, 'partition')}: it did not exist.", err=True)
    return count


async def topic_exists(client: Producer, name: str) -> bool:
    """Whether a topic exists, without creating it. True if the broker answers with another error about the topic."""
    from minikafka.protocol.errors import ErrorCode
    from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    found = await client.cluster.retry(lambda: client.cluster.request(request), f"looking up topic {name!r}")
    return all(one.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for one in found.topics)


async def no_topic(client: Admin | Producer | Consumer, name: str, bootstrap_server: str) -> Failed:
    """The error for a missing topic, with the name that was probably meant."""
    from minikafka.protocol.errors import UnknownTopicOrPartitionError
    from minikafka.protocol.messages.metadata import MetadataRequest

    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    found = await client.cluster.retry(lambda: client.cluster.request(request), "listing topics")
    message = (
        f"topic {name!r} does not exist at {bootstrap_server}{meant(name, [one.name or '' for one in found.topics])}: "
        f"`minikafka topics list` lists all topics, `minikafka topics create {name}` creates it"
    )
    return Failed([failure(UnknownTopicOrPartitionError(), message)])


async def no_group(admin: Admin, name: str, bootstrap_server: str) -> Failed:
    """The error for a missing group, with the name that was probably meant."""
    from minikafka.protocol.errors import GroupIdNotFoundError

    known = [one.group_id for one in await admin.list_groups()]
    message = (
        f"group {name!r} does not exist at {bootstrap_server}{meant(name, known)}: "
        "`minikafka groups list` lists all groups"
    )
    return Failed([failure(GroupIdNotFoundError(), message)])


def check_partition(topic: str, count: int, partition: int) -> None:
    """Raise click.ClickException if a topic of `count` partitions does not have this partition."""
    if not 0 <= partition < count:
        has = "only partition 0" if count == 1 else f"partitions 0 to {count - 1}"
        raise click.ClickException(f"topic {topic!r} has no partition {partition}: it has {has}")
