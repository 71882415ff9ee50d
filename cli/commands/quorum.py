"""`minikafka quorum`: describes the replicas of the metadata log, adds voters and removes them (KIP-853)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.arguments.options import client_or_controller_options
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import json_option, output
from minikafka.cli.terminal.tables import table

if TYPE_CHECKING:
    from minikafka.client import Admin, QuorumDescription, QuorumReplica


dry_run = click.option("--dry-run", is_flag=True, help="Only show what would be changed.")


@click.group()
def quorum() -> None:
    """Describe the controller quorum, and change its voters.

    Example: minikafka quorum describe
    """


@quorum.command()
@client_or_controller_options
@json_option
def describe(bootstrap_server: str, as_json: bool) -> None:
    """Show the voters and observers of the quorum.

    Shows leader, followers and observers of the metadata log, and the lag of each.

    \b
    Examples:
      minikafka quorum describe
      minikafka quorum describe --json
    """

    async def work(admin: Admin) -> None:
        found = await admin.describe_quorum()
        output(details(found), description(found), as_json=as_json)

    with_admin(bootstrap_server, work)


@quorum.command("add-controller")
@client_or_controller_options
@click.option(
    "--config",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file of the controller, which must run, and have its data directory on this machine.",
)
@dry_run
@json_option
def add_controller(bootstrap_server: str, config: Path, *, dry_run: bool, as_json: bool) -> None:
    """Make a running controller a voter. Its node id and directory id are read from its files.

    Example: minikafka quorum add-controller --config node-4/server.properties
    """
    from minikafka.cli.commands.controller_identity import identity_in

    node_id, directory_id, endpoints = identity_in(config)
    where = ", ".join(f"{name}://{address}" for name, address in endpoints.items())
    shown = f"controller {node_id} with directory id {directory_id} and endpoints {where}"
    if not dry_run:
        with_admin(bootstrap_server, lambda admin: admin.add_raft_voter(node_id, directory_id, endpoints))
    details = {"node": node_id, "directory_id": directory_id, "endpoints": endpoints, "added": not dry_run}
    output(details, [f"{'Would add' if dry_run else 'Added'} {shown}."], as_json=as_json)


@quorum.command("remove-controller")
@client_or_controller_options
@click.argument("node_id", type=Whole(0, bits=32))
@click.option("--directory-id", help="Id of the voter's metadata directory.  [default: that of the voter with this id]")
@dry_run
@json_option
def remove_controller(
    bootstrap_server: str, node_id: int, directory_id: str | None, *, dry_run: bool, as_json: bool
) -> None:
    """Remove a voter from the quorum. It goes on as an observer until it is stopped.

    \b
    Examples:
      minikafka quorum remove-controller 3
      minikafka quorum remove-controller 3 --directory-id OE8e3QHzSYiQ4sEexample --dry-run
    """

    async def work(admin: Admin) -> None:
        directory = directory_id or await directory_of(admin, node_id)
        shown = f"controller {node_id} with directory id {directory}"
        if not dry_run:
            await admin.remove_raft_voter(node_id, directory)
        details = {"node": node_id, "directory_id": directory, "removed": not dry_run}
        output(details, [f"{'Would remove' if dry_run else 'Removed'} {shown}."], as_json=as_json)

    with_admin(bootstrap_server, work)


async def directory_of(admin: Admin, node_id: int) -> str:
    """The directory id of a voter. Raises click.ClickException if the node is not a voter, or if voters are fixed."""
    found = await admin.describe_quorum()
    ids = {one.node_id: one.directory_id for one in found.voters}
    if node_id not in ids:
        raise click.ClickException(f"node {node_id} is no voter: the voters are {', '.join(map(str, sorted(ids)))}")
    directory = ids[node_id]
    if directory is None:
        raise click.ClickException("the voters are fixed by controller.quorum.voters: kraft.version is 0")
    return directory


def description(found: QuorumDescription) -> list[str]:
    """A quorum as text; the lag is in records, times are relative to the replica that caught up last."""
    columns = ("node", "status", "log_end_offset", "lag", "caught_up_ms_ago", "addresses", "directory_id")
    rows = [[shown(row[column]) for column in columns] for row in rows_of(found)]
    return [
        f"leader {found.leader_id}, epoch {found.leader_epoch}, high watermark {found.high_watermark}",
        *table(("node", "status", "log end", "lag", "behind ms", "address", "directory"), rows, indent="  "),
    ]


def shown(cell: object) -> object:
    """A cell of the table."""
    if isinstance(cell, list):
        return ",".join(cell) or "-"
    return "-" if cell is None else cell


def details(found: QuorumDescription) -> dict[str, Any]:
    """A quorum for JSON."""
    return {
        "leader": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "replicas": rows_of(found),
    }


def rows_of(found: QuorumDescription) -> list[dict[str, Any]]:
    """A row for each replica, the leader first."""
    voters = sorted(found.voters, key=lambda one: (one.node_id != found.leader_id, one.node_id))
    statuses = [("leader" if one.node_id == found.leader_id else "follower", one) for one in voters]
    statuses += [("observer", one) for one in sorted(found.observers, key=lambda one: one.node_id)]
    end = max((one.log_end_offset for _, one in statuses), default=0)
    newest = max((one.last_caught_up_time_ms for _, one in statuses), default=-1)
    return [row_of(one, status, end, newest) for status, one in statuses]


def row_of(one: QuorumReplica, status: str, end: int, newest_ms: int) -> dict[str, Any]:
    """The row of a replica, with None for values that the leader does not know."""
    known, timed = one.log_end_offset >= 0, one.last_caught_up_time_ms >= 0
    return {
        "node": one.node_id,
        "status": status,
        "log_end_offset": one.log_end_offset if known else None,
        "lag": end - one.log_end_offset if known else None,
        "caught_up_ms_ago": newest_ms - one.last_caught_up_time_ms if timed else None,
        "addresses": list(one.addresses),
        "directory_id": one.directory_id,
    }
