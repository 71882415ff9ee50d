"""`minikafka acls`: lists, adds and removes ACLs, with the options of Kafka's `kafka-acls`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

import click

from minikafka.cli.arguments.options import client_or_controller_options
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import echo, json_option, output, report
from minikafka.cli.terminal.tables import table
from minikafka.protocol.acl_codes import CLUSTER_NAME
from minikafka.protocol.addresses import javas_address
from minikafka.protocol.counted import counted
from minikafka.protocol.shortened import shortened

if TYPE_CHECKING:
    from minikafka.client import Acl, Admin

    TextType = click.ParamType[str]
else:
    TextType = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])

OPERATIONS = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
    "create_tokens",
    "describe_tokens",
    "two_phase_commit",
)
Resource = tuple[str, str]
"""A resource type and a name."""


class PrincipalType(TextType):
    """A principal, as User:alice. Without its type it would be one that no client has."""

    name = "principal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text. Raises click.BadParameter."""
        kind, colon, name = str(value).partition(":")
        if not kind or not colon or not name:
            self.fail(f"{_quoted(value)} must have a type and a name, as User:alice", param, ctx)
        if kind != "User" and kind.lower() == "user":
            self.fail(f"{_quoted(value)}: the type is written User, with a capital letter", param, ctx)
        return value


_PRINCIPAL = PrincipalType()


def _quoted(text: str) -> str:
    return repr(shortened(text))


def _principals(option: str, name: str, help_text: str) -> Callable[[F], F]:
    return click.option(option, name, multiple=True, type=_PRINCIPAL, metavar="PRINCIPAL", help=help_text)


@click.group()
def acls() -> None:
    """List, add and remove ACLs: who may do what with which topics, groups, transactional ids and cluster.

    \b
    Example:
      minikafka acls add --allow User:alice --operation read --topic flights
    """


def resource_options(function: F) -> F:
    """Decorate a command with the options that name resources; it gets pairs of type and name as `resources`."""

    def collect(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        kind = parameter.name or ""
        names = ([CLUSTER_NAME] if value else []) if isinstance(value, bool) else value
        context.params.setdefault("resources", []).extend((kind, name) for name in names)

    def named(option: str, kind: str, text: str) -> Callable[[F], F]:
        return click.option(
            option, kind, multiple=True, metavar="NAME", expose_value=False, callback=collect, help=text
        )

    options: list[Callable[[F], F]] = [
        named("--topic", "topic", "A topic, or * for all; repeatable."),
        named("--group", "group", "A consumer group, or * for all; repeatable."),
        click.option("--cluster", is_flag=True, expose_value=False, callback=collect, help="The cluster."),
        named("--transactional-id", "transactional_id", "A transactional id, or * for all; repeatable."),
        named("--delegation-token", "delegation_token", "A delegation token, or * for all; repeatable."),
        named("--user-principal", "user", "A user, such as User:alice, whose delegation tokens are meant; repeatable."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def rule_options(function: F) -> F:
    """Decorate a command with the options that make ACLs: principals, hosts, operations, and kinds of clients."""
    options: list[Callable[[F], F]] = [
        _principals("--allow", "allowed", "Principal that is allowed, such as User:alice; repeatable."),
        _principals("--deny", "denied", "Principal that is denied, such as User:bob; repeatable."),
        click.option("--host", "hosts", multiple=True, metavar="IP", help="Only from this IP address; repeatable."),
        click.option(
            "--operation",
            "operations",
            multiple=True,
            type=click.Choice(OPERATIONS, case_sensitive=False),
            help="What is allowed or denied; repeatable. By default all.",
        ),
        click.option("--prefixed", is_flag=True, help="Each NAME stands for all names that begin with it."),
        click.option("--producer", is_flag=True, help="All that a producer needs for --topic, --transactional-id."),
        click.option("--consumer", is_flag=True, help="All that a consumer needs for --topic and --group."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@acls.command("list")
@client_or_controller_options
@resource_options
@click.option("--principal", type=_PRINCIPAL, metavar="PRINCIPAL", help="Only those of this principal (User:alice).")
@json_option
def list_acls(bootstrap_server: str, resources: Sequence[Resource], principal: str | None, as_json: bool) -> None:
    """List ACLs. For named resources, list all that apply to them, also those for prefixes and wildcards.

    Example: minikafka acls list --topic flights
    """

    async def work(admin: Admin) -> None:
        from minikafka.client import AclFilter

        filters = [AclFilter(kind, name, principal, pattern="match") for kind, name in resources]
        found: dict[Acl, None] = {}
        for selected in filters or [AclFilter(principal=principal)]:
            found.update(dict.fromkeys(await admin.describe_acls(selected)))
        output([asdict(acl) for acl in found], acl_lines(found), as_json=as_json)

    with_admin(bootstrap_server, work)


def acl_lines(found: Iterable[Acl]) -> list[str]:
    """The table of ACLs."""
    rows = [
        [acl.resource_type, acl.name, acl.pattern, acl.principal, acl.host, acl.operation, acl.permission]
        for acl in found
    ]
    if not rows:
        return ["No ACLs."]
    return table(("resource", "name", "pattern", "principal", "host", "operation", "permission"), rows)


@acls.command()
@client_or_controller_options
@resource_options
@rule_options
@json_option
def add(bootstrap_server: str, resources: Sequence[Resource], as_json: bool, **rule: Any) -> None:
    """Add ACLs for resources and principals.

    Adds an ACL for each combination of the given resources, principals, hosts and operations.

    \b
    Example:
      minikafka acls add --allow User:alice --consumer --topic flights --group readers
    """
    wanted = acls_of(resources, **rule)
    for kind, name in dict.fromkeys((acl.resource_type, acl.name) for acl in wanted):
        if name.endswith("*") and name != "*":
            beginning = _quoted(name.rstrip("*"))
            letter = f"{kind} {_quoted(name)}: the * is part of this name"
            echo(f"{letter}; for all names that begin with {beginning} give {beginning} and --prefixed", err=True)

    async def work(admin: Admin) -> None:
        results = await admin.create_acls(wanted)
        done = [acl for acl, error in results.items() if error is None]
        errors = [error for error in results.values() if error is not None]
        report(
            [asdict(acl) for acl in done], [f"Added {counted(len(done), 'ACL')}.", *acl_lines(done)], errors,
            done=len(done), as_json=as_json,
        )

    with_admin(bootstrap_server, work)


@acls.command()
@client_or_controller_options
@resource_options
@rule_options
@json_option
def remove(bootstrap_server: str, resources: Sequence[Resource], as_json: bool, **rule: Any) -> None:
    """Remove the ACLs that `add` with the same options adds. The exit code is 1 if there are none.

    \b
    Example:
      minikafka acls remove --allow User:alice --operation read --topic flights
    """
    wanted = acls_of(resources, **rule)

    async def work(admin: Admin) -> None:
        from minikafka.client import AclFilter, KafkaError

        filters = [
            AclFilter(
                acl.resource_type, acl.name, acl.principal, acl.operation, acl.permission, acl.host, acl.pattern
            )
            for acl in wanted
        ]
        results = (await admin.delete_acls(filters)).values()
        errors = [result for result in results if isinstance(result, KafkaError)]
        removed = [acl for result in results if not isinstance(result, KafkaError) for acl in result]
        if not removed and not errors:
            raise click.ClickException("there is no such ACL; `minikafka acls list` shows those that exist")
        report(
            [asdict(acl) for acl in removed],
            [f"Removed {counted(len(removed), 'ACL')}.", *acl_lines(removed)],
            errors,
            done=len(removed),
            as_json=as_json,
        )

    with_admin(bootstrap_server, work)


def acls_of(
    resources: Sequence[Resource],
    *,
    allowed: Sequence[str],
    denied: Sequence[str],
    hosts: Sequence[str],
    operations: Sequence[str],
    prefixed: bool,
    producer: bool,
    consumer: bool,
) -> list[Acl]:
    """The ACLs that a command line names. Raises click.UsageError if it names none."""
    from minikafka.client import Acl

    if not allowed and not denied:
        raise click.UsageError("name a principal: --allow User:alice or --deny User:alice")
    if (producer or consumer) and (operations or denied):
        raise click.UsageError("--producer and --consumer say what is allowed: leave out --operation and --deny")
    if not resources:
        raise click.UsageError("name a resource: --topic, --group, --cluster, --transactional-id …")
    if producer or consumer:
        pairs = [*(_for_producer(resources) if producer else ()), *(_for_consumer(resources) if consumer else ())]
    else:
        pairs = list(product(resources, operations or ("all",)))
    who = [*((one, "allow") for one in allowed), *((one, "deny") for one in denied)]
    found = [
        Acl(kind, name, principal, operation, permission, host, "literal" if kind == "cluster" else pattern)
        for ((kind, name), operation), (principal, permission), host, pattern in product(
            pairs, who, [javas_address(host) for host in hosts] or ["*"], ["prefixed" if prefixed else "literal"]
        )
    ]
    return list(dict.fromkeys(found))


def _for_producer(resources: Sequence[Resource]) -> list[tuple[Resource, str]]:
    by_kind = {"topic": ("write", "describe", "create"), "transactional_id": ("write", "describe")}
    if not any(kind == "topic" for kind, _ in resources):
        raise click.UsageError("--producer needs --topic")
    return [(one, operation) for one in resources for operation in by_kind.get(one[0], ())]


def _for_consumer(resources: Sequence[Resource]) -> list[tuple[Resource, str]]:
    kinds = {kind for kind, _ in resources}
    if not {"topic", "group"} <= kinds:
        raise click.UsageError("--consumer needs --topic and --group")
    by_kind = {"topic": ("read", "describe"), "group": ("read",)}
    return [(one, operation) for one in resources for operation in by_kind.get(one[0], ())]
