"""`minikafka log-dirs`: shows the data directories of brokers and their replicas, like `kafka-log-dirs` (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.arguments.options import check_broker, client_options, no_topic
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import json_option, output
from minikafka.cli.terminal.tables import table

if TYPE_CHECKING:
    from minikafka.client import Admin, LogDirectory

FULL_BYTES_MAX = 1 << 21
"""A disk with less room than this counts as full: minikafka puts no new logs there, and refuses large batches."""


@click.command("log-dirs")
@client_options
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option(
    "--broker", "broker_ids", multiple=True, type=Whole(0, bits=32), metavar="ID",
    help="Show only this broker; repeatable.",
)
@click.option("--replicas", is_flag=True, help="Show a line for each replica.")
@json_option
def log_dirs(
    bootstrap_server: str, topics: tuple[str, ...], broker_ids: tuple[int, ...], replicas: bool, as_json: bool
) -> None:
    """Show the data directories of brokers: errors, size and free space of disks, replicas of TOPICs or of all topics.

    The state of a directory is `full` if its disk has less than 2 MiB left, or has refused a write and has had no room
    since.

    \b
    Examples:
      minikafka log-dirs
      minikafka log-dirs flights --replicas
      minikafka log-dirs --broker 1 --json
    """

    from minikafka.cli.commands.topics import described

    async def work(admin: Admin) -> None:
        for node_id in broker_ids:
            await check_broker(admin, node_id)
        found = await admin.describe_log_dirs(broker_ids or None)
        held = {tp.topic for some in found.values() for one in some for tp in one.replicas}
        existing = await described(admin, missing) if (missing := [one for one in topics if one not in held]) else {}
        for name in missing:
            if name not in existing:
                raise await no_topic(admin, name, bootstrap_server)
        details = [
            directory_details(node_id, one, topics) for node_id, some in found.items() for one in some
        ]
        lines = replica_lines(details) if replicas else directory_lines(details)
        output(details, lines, as_json=as_json)

    with_admin(bootstrap_server, work)


def directory_details(node_id: int, one: LogDirectory, topics: Iterable[str]) -> dict[str, Any]:
    """The details of a directory for JSON; sizes are in bytes, null if the broker does not report them."""
    chosen = {tp: replica for tp, replica in sorted(one.replicas.items()) if not topics or tp.topic in topics}
    return {
        "broker": node_id,
        "path": one.path,
        "error": None if one.error is None else str(one.error),
        "full": is_full(one),
        "total_bytes": one.total_bytes if one.total_bytes >= 0 else None,
        "usable_bytes": one.usable_bytes if one.usable_bytes >= 0 else None,
        "size_bytes": sum(replica.size_bytes for replica in chosen.values()),
        "replicas": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "size_bytes": replica.size_bytes,
                "lag": replica.offset_lag,
                "future": replica.is_future,
            }
            for tp, replica in chosen.items()
        ],
    }


def is_full(one: LogDirectory) -> bool:
    """Whether the disk of a directory has no room left; False if the broker does not report the room."""
    return 0 <= one.usable_bytes < FULL_BYTES_MAX


def directory_lines(details: Iterable[Mapping[str, Any]]) -> list[str]:
    """The table of directories."""
    rows = [
        [
            one["broker"],
            one["path"],
            one["error"] or ("full" if one["full"] else "ok"),
            len(one["replicas"]),
            size_text(one["size_bytes"]),
            size_text(one["usable_bytes"]),
            size_text(one["total_bytes"]),
        ]
        for one in details
    ]
    return table(("broker", "directory", "state", "replicas", "size", "free", "disk"), rows)


def replica_lines(details: Iterable[Mapping[str, Any]]) -> list[str]:
    """The table of replicas. A future replica is a copy that is to replace the replica in another directory."""
    rows = [
        [
            one["broker"],
            replica["topic"],
            replica["partition"],
            replica["size_bytes"],
            replica["lag"],
            "future" if replica["future"] else "current",
            one["path"],
        ]
        for one in details
        for replica in one["replicas"]
    ]
    return table(("broker", "topic", "partition", "bytes", "lag", "copy", "directory"), rows)


def size_text(size_bytes: int | None) -> str:
    """A size as text, in the largest binary unit in which it is at least 1; `-` for None."""
    if size_bytes is None:
        return "-"
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
