"""`minikafka transactions`: lists and describes transactions, finds and aborts hanging transactions (KIP-664)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.arguments.options import Seconds, client_options
from minikafka.cli.commands.elect_leaders import partitions_of
from minikafka.cli.commands.offsets import led_partitions, report_leaderless
from minikafka.cli.records.template import iso_time
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import echo, echo_json, json_option, output
from minikafka.cli.terminal.tables import table
from minikafka.protocol.counted import counted

if TYPE_CHECKING:
    from minikafka.client import Admin

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
)


@click.group()
def transactions() -> None:
    """List and describe transactions; find and abort those that hang.

    Example: minikafka transactions list --state Ongoing
    """


@transactions.command("list")
@client_options
@click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES),
    help="List only transactions in this state; repeatable.",
)
@json_option
def list_transactions(bootstrap_server: str, states: tuple[str, ...], as_json: bool) -> None:
    """List all transactional ids.

    Example: minikafka transactions list --state Ongoing
    """

    async def work(admin: Admin) -> None:
        found = await admin.list_transactions(states=states)
        if as_json:
            echo_json([asdict(one) for one in found])
        elif found:
            rows = [[one.transactional_id, one.coordinator, one.producer_id, one.state] for one in found]
            echo("\n".join(table(("transactional id", "coordinator", "producer id", "state"), rows)))
        else:
            echo("No transactions.")

    with_admin(bootstrap_server, work)


@transactions.command()
@client_options
@click.argument("transactional_id")
@json_option
def describe(bootstrap_server: str, transactional_id: str, as_json: bool) -> None:
    """Describe the last transaction of a TRANSACTIONAL_ID.

    Example: minikafka transactions describe delays-0
    """

    async def work(admin: Admin) -> None:
        one = await admin.describe_transaction(transactional_id)
        if as_json:
            echo_json(asdict(one) | {"partitions": [str(tp) for tp in one.partitions]})
            return
        lines = {
            "state": one.state,
            "producer id": one.producer_id,
            "producer epoch": one.producer_epoch,
            "coordinator": one.coordinator,
            "timeout": f"{one.timeout_ms} ms",
            "started": iso_time(one.start_ms),
            "partitions": ", ".join(map(str, one.partitions)) or "-",
        }
        echo("\n".join(f"{name + ':':16}{value}" for name, value in lines.items()))

    with_admin(bootstrap_server, work)


@transactions.command("find-hanging")
@client_options
@click.argument("names", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
@click.option(
    "--older-than",
    "older_than_s",
    type=Seconds(0),
    default=900.0,
    show_default=True,
    metavar="SECONDS",
    help="Show only transactions without a record for this long; use at least the brokers' transaction.max.timeout.ms.",
)
@json_option
def find_hanging(bootstrap_server: str, names: tuple[str, ...], older_than_s: float, as_json: bool) -> None:
    """Find transactions that no coordinator knows.

    Such transactions are open and never end. Without arguments, searches all topics. The exit code is 1 if there are
    any; `transactions abort` ends one.

    Example: minikafka transactions find-hanging flights
    """

    async def work(admin: Admin) -> None:
        chosen = await partitions_of(admin, names or await admin.list_topics(include_internal=True), bootstrap_server)
        led = await led_partitions(admin, chosen, bootstrap_server)
        found = await admin.find_hanging_transactions(led, older_than_ms=round(older_than_s * 1000))
        rows = [
            [
                str(one.partition),
                one.producer.producer_id,
                one.producer.producer_epoch,
                one.producer.coordinator_epoch,
                one.producer.transaction_start_offset,
                iso_time(one.producer.last_timestamp_ms),
            ]
            for one in found
        ]
        titles = ("partition", "producer id", "epoch", "coordinator epoch", "start offset", "last record")
        none = [f"No hanging transactions in {counted(len(led), 'partition')}."]
        details = [
            {"topic": one.partition.topic, "partition": one.partition.partition, **asdict(one.producer)}
            for one in found
        ]
        output(details, table(titles, rows) if rows else none, as_json=as_json)
        report_leaderless(chosen, led, "transactions")
        if found:
            raise click.exceptions.Exit(1)

    with_admin(bootstrap_server, work)


@transactions.command()
@client_options
@click.argument("name", metavar="TOPIC:PARTITION")
@click.option("--start-offset", type=Whole(0), required=True, help="The first offset of the transaction.")
@json_option
def abort(bootstrap_server: str, name: str, start_offset: int, as_json: bool) -> None:
    """Abort a hanging transaction that `find-hanging` has shown.

    The marker is written without asking the coordinator. In a transaction that is in progress, it would abort the
    records of this partition only.

    Example: minikafka transactions abort flights:7 --start-offset 4711
    """

    async def work(admin: Admin) -> None:
        if ":" not in name:
            raise click.UsageError(f"{name!r} names no partition: expected TOPIC:PARTITION")
        (tp,) = chosen = await partitions_of(admin, [name], bootstrap_server)
        await led_partitions(admin, chosen, bootstrap_server)
        for one in await admin.describe_producers(tp):
            if one.transaction_start_offset == start_offset:
                await admin.abort_transaction(
                    tp, one.producer_id, one.producer_epoch, max(one.coordinator_epoch, 0)
                )
                done = {"topic": tp.topic, "partition": tp.partition, "producer_id": one.producer_id}
                said = f"Aborted the transaction of producer {one.producer_id} in {tp}."
                output(done, [said], as_json=as_json)
                return
        raise click.ClickException(f"{tp} has no open transaction that starts at offset {start_offset}")

    with_admin(bootstrap_server, work)
