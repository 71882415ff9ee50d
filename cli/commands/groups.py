"""`minikafka groups`: lists and describes consumer groups, shows members and lag, resets offsets, deletes groups.

The rules and the words of errors are those of Kafka's `kafka-consumer-groups`.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.arguments.options import F, Time, client_options, no_group
from minikafka.cli.arguments.times import KNOWN
from minikafka.cli.commands.group_rows import (
    GroupOffsets,
    description_json,
    lag_rows,
    member_json,
    member_rows,
    notes_of,
    read_group_offsets,
)
from minikafka.cli.commands.offset_reset import Change, Scenario, export_text, plan_changes, read_csv
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.failures import Failed, meant
from minikafka.cli.terminal.output import echo, echo_json, json_option, output, report
from minikafka.cli.terminal.redraw import Redrawing
from minikafka.cli.terminal.tables import table
from minikafka.protocol.counted import counted
from minikafka.protocol.visible import visible

if TYPE_CHECKING:
    from minikafka.client import Admin

STATES = ("Assigning", "Reconciling", "PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead")
TYPES = ("classic", "consumer")
WATCH_INTERVAL_S = 1.0
RESETTABLE = ("Empty", "Dead")

watch_option = click.option("--watch", is_flag=True, help="Redraw the table every second, until Ctrl-C.")
group_arguments = click.argument("group_ids", nargs=-1, metavar="[GROUP]...")


def view_options(function: F) -> F:
    """Decorate a command with the options of all views of groups: client options, groups, `--watch` and `--json`."""
    return client_options(group_arguments(watch_option(json_option(function))))


@click.group()
def groups() -> None:
    """List and describe consumer groups, show their lag, reset their offsets, delete them.

    Example: minikafka groups lag readers --watch
    """


@groups.command("list")
@client_options
@click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES, False),
    help="List only groups in this state; repeatable.",
)
@click.option(
    "--type", "types", multiple=True, type=click.Choice(TYPES),
    help="List only groups of this type; repeatable.",
)
@json_option
def list_groups(bootstrap_server: str, states: tuple[str, ...], types: tuple[str, ...], as_json: bool) -> None:
    """List all groups with their type and state.

    The type is the protocol of the group: classic or consumer.

    \b
    Examples:
      minikafka groups list
      minikafka groups list --state Stable --type consumer
    """

    async def work(admin: Admin) -> None:
        found = await admin.list_groups(states=states, types=types)
        if as_json:
            listed = [
                {"group": one.group_id, "type": one.group_type, "state": one.state, "protocol": one.protocol_type}
                for one in found
            ]
            echo_json(listed)
        elif found:
            rows = [[one.group_id, one.group_type or "-", one.state or "-", one.protocol_type or "-"] for one in found]
            echo("\n".join(table(("group", "type", "state", "protocol"), rows)))

    with_admin(bootstrap_server, work)


@dataclass(frozen=True)
class Frame:
    """The output of a command about groups: the lines of a table, the notes above it, and the details for JSON."""

    lines: list[str]
    notes: list[str]
    details: list[dict[str, Any]]


Look = Callable[["Admin", Sequence[str]], Awaitable[Frame]]


@groups.command()
@view_options
def describe(bootstrap_server: str, group_ids: tuple[str, ...], watch: bool, as_json: bool) -> None:
    """Show the state of GROUPs, or of all groups.

    Shows type, state, assignor, coordinator, epoch and number of members.

    \b
    Examples:
      minikafka groups describe readers
      minikafka groups describe --json
    """

    async def look(admin: Admin, names: Sequence[str]) -> Frame:
        found = [await admin.describe_group(name) for name in names]
        rows = [
            [
                one.group_id,
                one.group_type,
                one.state,
                one.assignor or "-",
                one.coordinator,
                one.epoch if one.epoch >= 0 else "-",
                len(one.members),
            ]
            for one in found
        ]
        titles = ("group", "type", "state", "assignor", "coordinator", "epoch", "members")
        return Frame(table(titles, rows), [], [description_json(one) for one in found])

    show(bootstrap_server, group_ids, look, watch=watch, as_json=as_json)


@groups.command()
@view_options
def members(bootstrap_server: str, group_ids: tuple[str, ...], watch: bool, as_json: bool) -> None:
    """Show the members of GROUPs and their partitions.

    Without GROUPs, shows all groups. For members of the consumer protocol, also shows the member epoch and, in
    brackets, the target assignment if it differs: the partitions that the member will have once other members have
    given them up.

    \b
    Examples:
      minikafka groups members readers
      minikafka groups members readers --watch
    """

    async def look(admin: Admin, names: Sequence[str]) -> Frame:
        found = [await admin.describe_group(name) for name in names]
        titles = ("group", "member", "instance", "host", "client", "epoch", "partitions", "assignment")
        rows = [row for one in found for row in member_rows(one)]
        details = [member_json(one, member) for one in found for member in one.members]
        return Frame(table(titles, rows), notes_of(found), details)

    show(bootstrap_server, group_ids, look, watch=watch, as_json=as_json)


@groups.command()
@view_options
def lag(bootstrap_server: str, group_ids: tuple[str, ...], watch: bool, as_json: bool) -> None:
    """Show the lag of GROUPs, or of all groups.

    Shows committed offset, end offset, lag and member for each partition. A dash (-) stands for an unknown value: no
    offset was committed, or the partition has no leader.

    \b
    Examples:
      minikafka groups lag readers
      minikafka groups lag readers --watch
    """

    async def look(admin: Admin, names: Sequence[str]) -> Frame:
        found: list[GroupOffsets] = [await read_group_offsets(admin, name) for name in names]
        titles = ("group", "topic", "partition", "committed", "end", "lag", "member", "host", "client")
        rows = [row for one in found for row in lag_rows(one)]
        details = [offset.details(one.description) for one in found for offset in one.partitions]
        return Frame(table(titles, rows), notes_of([one.description for one in found]), details)

    show(bootstrap_server, group_ids, look, watch=watch, as_json=as_json)


@groups.command("reset-offsets")
@client_options
@click.argument("group_id", metavar="GROUP")
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC[:N,N]",
    help="Reset this topic, or some of its partitions; repeatable.",
)
@click.option("--all-topics", is_flag=True, help="Reset all partitions for which the group has committed offsets.")
@click.option("--to-earliest", is_flag=True, help="Reset to the first offset of each partition.")
@click.option("--to-latest", is_flag=True, help="Reset to the end of each partition.")
@click.option(
    "--to-current", is_flag=True,
    help="Keep the committed offsets; reset partitions without one to their end.",
)
@click.option("--to-offset", metavar="N", type=Whole(), help="Reset to this offset.")
@click.option(
    "--shift-by", metavar="N", type=Whole(),
    help="Reset to N offsets after the committed one, or -N before it.",
)
@click.option(
    "--to-time", metavar="TIME", type=Time(),
    help=f"Reset to the first record at or after this time, {KNOWN}.",
)
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Reset to the offsets in this CSV file, as --export prints it: lines of topic,partition,offset.",
)
@click.option("--execute", is_flag=True, help="Commit the new offsets. Without this option nothing is changed.")
@click.option("--dry-run", is_flag=True, help="Only show old and new offsets; this is the default.")
@click.option("--export", is_flag=True, help="Print the new offsets as CSV, for --from-file.")
@json_option
def reset_offsets(
    bootstrap_server: str,
    group_id: str,
    topics: tuple[str, ...],
    all_topics: bool,
    from_file: Path | None,
    execute: bool,
    dry_run: bool,
    export: bool,
    as_json: bool,
    **scenarios: Any,
) -> None:
    """Change the committed offsets of a GROUP without members. Shows old and new ones; --execute commits them.

    A new offset beyond the end of its partition is replaced by the end, and one before the first offset by that.
    --from-file also reads the CSV files of Kafka's kafka-consumer-groups, with or without the group in front.

    \b
    Examples:
      minikafka groups reset-offsets readers --topic flights --to-earliest
      minikafka groups reset-offsets readers --topic flights:0,1 --to-time -2h --execute
      minikafka groups reset-offsets readers --all-topics --to-current --export > offsets.csv
      minikafka groups reset-offsets readers --from-file offsets.csv --execute
    """
    planned = None if from_file is None else read_csv(from_file, group_id)
    scenario = Scenario.chosen(planned, **scenarios)
    if planned is None and bool(topics) == all_topics:
        raise click.UsageError("one of the reset scopes must be given: --topic or --all-topics")
    if execute and dry_run:
        raise click.UsageError("--execute and --dry-run are mutually exclusive")
    if export and as_json:
        raise click.UsageError("--export and --json are mutually exclusive")

    async def work(admin: Admin) -> None:
        exists = await check_inactive(admin, group_id, bootstrap_server, must_exist=all_topics)
        changes = await plan_changes(admin, group_id, scenario, None if all_topics else topics, bootstrap_server)
        if execute and changes:
            await admin.alter_group_offsets(group_id, {one.partition: one.new for one in changes})
        if export:
            echo(export_text(changes), nl=False)
        else:
            details = {"group": group_id, "executed": execute, "offsets": [change_json(one) for one in changes]}
            output(details, changes_lines(group_id, changes, executed=execute), as_json=as_json)
        if changes and not exists and not as_json:
            echo(await note_of_new(admin, group_id, executed=execute), err=True)
        if not execute and not as_json:
            echo("Nothing was changed: add --execute to commit these offsets.", err=True)

    with_admin(bootstrap_server, work)


@groups.command()
@client_options
@click.argument("group_ids", nargs=-1, required=True, metavar="GROUP...")
@json_option
def delete(bootstrap_server: str, group_ids: tuple[str, ...], as_json: bool) -> None:
    """Delete groups without members.

    Their committed offsets are deleted, too.

    Example: minikafka groups delete readers
    """
    from minikafka.protocol.errors import GroupIdNotFoundError, KafkaError

    async def work(admin: Admin) -> None:
        deleted: list[str] = []
        errors: list[object] = []
        for group_id in group_ids:
            try:
                await admin.delete_group(group_id)
                deleted.append(group_id)
            except GroupIdNotFoundError:
                errors += (await no_group(admin, group_id, bootstrap_server)).failures
            except KafkaError as error:
                errors.append(error)
        said = [f"Deleted group {group_id}." for group_id in deleted]
        report({"deleted": deleted}, said, errors, done=len(deleted), as_json=as_json)

    with_admin(bootstrap_server, work)


def show(bootstrap_server: str, group_ids: Sequence[str], look: Look, *, watch: bool, as_json: bool) -> None:
    """Print the `Frame` that `look` returns for the groups, once or repeatedly. Raises click.UsageError, KafkaError."""
    if watch and as_json:
        raise click.UsageError("--watch and --json are mutually exclusive")
    from minikafka.protocol.errors import GroupIdNotFoundError

    async def frame(admin: Admin) -> Frame:
        try:
            return await look(admin, group_ids or [one.group_id for one in await consumer_groups(admin)])
        except GroupIdNotFoundError:
            known = {one.group_id for one in await admin.list_groups()}
            missing = [name for name in group_ids if name not in known]
            if not missing:
                raise
            raise await no_group(admin, missing[0], bootstrap_server) from None

    async def work(admin: Admin) -> None:
        first = await frame(admin)
        if watch:
            await redraw(admin, first, frame)
        elif as_json:
            echo_json(first.details)
        else:
            for note in first.notes:
                echo(visible(note), err=True)
            echo("\n".join(map(visible, first.lines)))

    with_admin(bootstrap_server, work)


async def redraw(admin: Admin, first: Frame, frame: Callable[[Admin], Awaitable[Frame]]) -> None:
    """Redraw in place until cancelled. Errors, as of a group that was deleted, are shown in place of the table."""
    import anyio

    from minikafka.protocol.errors import KafkaError

    screen, lines = Redrawing(sys.stdout), [*first.notes, *first.lines]
    while True:
        screen.show(lines)
        await anyio.sleep(WATCH_INTERVAL_S)
        try:
            found = await frame(admin)
            lines = [*found.notes, *found.lines]
        except (KafkaError, Failed) as error:
            lines = [f"Error: {error}"]


async def consumer_groups(admin: Admin) -> list[Any]:
    """The groups of consumers. Groups of other protocol types, such as Kafka Connect's, have no partitions."""
    return [one for one in await admin.list_groups() if one.protocol_type in ("consumer", "")]


async def check_inactive(admin: Admin, group_id: str, bootstrap_server: str, *, must_exist: bool) -> bool:
    """Check that a group has no members; return whether it exists. If it does not, a commit of offsets creates it.

    Raises click.ClickException if the group has members, or with `must_exist` if it does not exist.
    """
    from minikafka.protocol.errors import GroupIdNotFoundError

    try:
        found = await admin.describe_group(group_id)
    except GroupIdNotFoundError:
        if must_exist:
            raise await no_group(admin, group_id, bootstrap_server) from None
        return False
    if found.state not in RESETTABLE:
        raise click.ClickException(
            f"Assignments can only be reset if the group '{group_id}' is inactive, "
            f"but the current state is {found.state}. "
            f"Stop its {counted(len(found.members), 'member')} first: `minikafka groups members {group_id}` shows them."
        )
    return found.state != "Dead"


async def note_of_new(admin: Admin, group_id: str, *, executed: bool) -> str:
    """The note for a reset of a group that does not exist, whose name may be mistyped."""
    hint = meant(group_id, [one.group_id for one in await admin.list_groups() if one.group_id != group_id])
    if executed:
        return f"Created group {group_id}: it did not exist{hint}."
    return f"Group {group_id} does not exist{hint}: --execute creates it."


def change_json(change: Change) -> dict[str, Any]:
    """A committed offset and the new offset, for JSON; null if no offset is committed."""
    tp = change.partition
    return {"topic": tp.topic, "partition": tp.partition, "committed": change.old, "new_offset": change.new}


def changes_lines(group_id: str, changes: Sequence[Change], *, executed: bool) -> list[str]:
    """The table of old and new offsets."""
    if not changes:
        return [f"Group {group_id} has no offsets to reset."]
    rows = [
        [group_id, one.partition.topic, one.partition.partition, "-" if one.old is None else one.old, one.new]
        for one in changes
    ]
    count = sum(one.old != one.new for one in changes)
    lines = table(("group", "topic", "partition", "committed", "new offset"), rows)
    if executed:
        return [*lines, f"{counted(count, 'offset')} changed."]
    return [*lines, f"{counted(count, 'offset')} differ{'s' if count == 1 else ''} from what is committed."]
