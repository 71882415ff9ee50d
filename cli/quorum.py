"""`minikafka quorum`: describes the replicas of the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.options import client_options
from minikafka.cli.output import json_option, output
from minikafka.cli.running import with_admin
from minikafka.cli.tables import table

if TYPE_CHECKING:
    from minikafka.client import Admin, QuorumDescription, QuorumReplica


@click.group()
def quorum() -> None:
    """Describe the controller quorum.

    Example: minikafka quorum describe
    """


@quorum.command()
@client_options
@json_option
def describe(bootstrap_server: str, as_json: bool) -> None:
    """Show leader, followers and observers of the metadata log, and the lag of each.

    \b
    Examples:
      minikafka quorum describe
      minikafka quorum describe --json
    """

    async def work(admin: Admin) -> None:
        found = await admin.describe_quorum()
        output(details(found), description(found), as_json=as_json)

    with_admin(bootstrap_server, work)


def description(found: QuorumDescription) -> list[str]:
    """A quorum as text; the lag is in records, times are relative to the replica that caught up last."""
    columns = ("node", "status", "log_end_offset", "lag", "caught_up_ms_ago", "addresses")
    rows = [[shown(row[column]) for column in columns] for row in rows_of(found)]
    return [
        f"leader {found.leader_id}, epoch {found.leader_epoch}, high watermark {found.high_watermark}",
        *table(("node", "status", "log end", "lag", "behind ms", "address"), rows, indent="  "),
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
    }
