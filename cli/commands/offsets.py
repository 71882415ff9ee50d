"""`minikafka offsets`: shows the first and end offsets of partitions, or those of a time, like `kafka-get-offsets`."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.options import Time, check_partition, client_options, no_topic
from minikafka.cli.arguments.times import KNOWN
from minikafka.cli.commands.elect_leaders import partitions_of
from minikafka.cli.records.template import iso_time
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import echo, json_option, output
from minikafka.cli.terminal.tables import table

if TYPE_CHECKING:
    from minikafka.client import Admin, TopicPartition
    from minikafka.client.options import IsolationLevel

NOWHERE = -1
"""The offset that a broker returns if no record is as new as the time."""


@click.command()
@client_options
@click.argument("names", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
@click.option(
    "--time", "time_ms", type=Time(),
    help=f"Show the offset of the first record at or after this time, {KNOWN}.",
)
@click.option("--newest", is_flag=True, help="Show the offset of the record with the highest timestamp.")
@click.option(
    "--committed", is_flag=True,
    help="Show the last stable offset as the end: without records of open transactions.",
)
@click.option("--internal", is_flag=True, help="Include internal topics, such as __consumer_offsets.")
@json_option
def offsets(
    bootstrap_server: str,
    names: tuple[str, ...],
    time_ms: int | None,
    newest: bool,
    committed: bool,
    internal: bool,
    as_json: bool,
) -> None:
    """Show the first offset and the end of partitions, or the offset at a point in time.

    Without arguments, shows all topics. The end is the offset that the next record gets. With --time, a partition
    without a record at or after that time has no offset.

    \b
    Examples:
      minikafka offsets flights
      minikafka offsets flights:0 --time -1h
      minikafka offsets --newest --json
    """
    from minikafka.client import MAX_TIMESTAMP

    if newest and time_ms is not None:
        raise click.UsageError("--newest and --time are mutually exclusive")
    isolation: IsolationLevel = "read_committed" if committed else "read_uncommitted"

    async def work(admin: Admin) -> None:
        topics = names or await admin.list_topics(include_internal=internal)
        chosen = await partitions_of(admin, topics, bootstrap_server)
        led = await led_partitions(admin, chosen, bootstrap_server)
        if newest or time_ms is not None:
            wanted = MAX_TIMESTAMP if newest or time_ms is None else time_ms
            details = at_time(chosen, await admin.list_offsets(dict.fromkeys(led, wanted), isolation_level=isolation))
            lines = time_lines(details)
        else:
            details = await ranges(admin, chosen, led, isolation)
            lines = range_lines(details)
        output(details, lines, as_json=as_json)
        report_leaderless(chosen, led, "offsets")

    with_admin(bootstrap_server, work)


async def led_partitions(
    admin: Admin, chosen: Sequence[TopicPartition], bootstrap_server: str
) -> dict[TopicPartition, None]:
    """The partitions that have a leader, in the same order.

    Raises click.ClickException for a topic or partition that does not exist.
    """
    from minikafka.cli.commands.topics import described

    led: dict[TopicPartition, None] = {}
    topics = await described(admin, list(dict.fromkeys(tp.topic for tp in chosen)))
    for tp in chosen:
        if tp.topic not in topics:
            raise await no_topic(admin, tp.topic, bootstrap_server)
        check_partition(tp.topic, len(topics[tp.topic].partitions), tp.partition)
        if topics[tp.topic].partitions[tp.partition].leader >= 0:
            led[tp] = None
    return led


def report_leaderless(chosen: Iterable[TopicPartition], led: Container[TopicPartition], what: str) -> None:
    """Say on standard error of which partitions the offsets (or another `what`) are not known, for want of a leader."""
    for tp in chosen:
        if tp not in led:
            echo(f"{tp} has no leader: its {what} are not known", err=True)


async def ranges(
    admin: Admin, chosen: Sequence[TopicPartition], led: Iterable[TopicPartition], isolation: IsolationLevel
) -> list[dict[str, Any]]:
    """The first offset and the end of each partition, for JSON; null without a leader."""
    from minikafka.client import EARLIEST, LATEST

    first = await admin.list_offsets(dict.fromkeys(led, EARLIEST))
    end = await admin.list_offsets(dict.fromkeys(led, LATEST), isolation_level=isolation)
    return [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "first": first[tp].offset if tp in first else None,
            "end": end[tp].offset if tp in end else None,
        }
        for tp in chosen
    ]


def range_lines(details: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of first offsets and ends."""
    rows = [
        [one["topic"], one["partition"], *(("-",) * 3 if one["first"] is None else span(one))] for one in details
    ]
    return table(("topic", "partition", "first", "end", "offsets"), rows)


def span(one: Mapping[str, Any]) -> tuple[int, int, int]:
    """The first offset, the end, and the number of offsets between them. Compaction may have left fewer records."""
    return one["first"], one["end"], one["end"] - one["first"]


def at_time(chosen: Iterable[TopicPartition], found: Mapping[TopicPartition, Any]) -> list[dict[str, Any]]:
    """The offset of each partition at a time, for JSON; null if there is none."""
    details = []
    for tp in chosen:
        one = found.get(tp)
        known = one is not None and one.offset != NOWHERE
        details.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "offset": one.offset if known and one is not None else None,
                "timestamp_ms": one.timestamp if known and one is not None else None,
            }
        )
    return details


def time_lines(details: Iterable[Mapping[str, Any]]) -> list[str]:
    """The table of offsets at a time."""
    rows = [
        [one["topic"], one["partition"], *(("-", "-") if one["offset"] is None else moment(one))] for one in details
    ]
    return table(("topic", "partition", "offset", "timestamp"), rows)


def moment(one: Mapping[str, Any]) -> tuple[int, str]:
    """An offset, and the time of its record."""
    return one["offset"], iso_time(one["timestamp_ms"])
