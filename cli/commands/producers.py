"""`minikafka producers`: shows the producers that the leaders of partitions know (KIP-664)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from minikafka.cli.arguments.options import client_options
from minikafka.cli.commands.elect_leaders import partitions_of
from minikafka.cli.commands.offsets import led_partitions, report_leaderless
from minikafka.cli.records.template import iso_time
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import json_option, output
from minikafka.cli.terminal.tables import table

if TYPE_CHECKING:
    from minikafka.client import Admin, ProducerState, TopicPartition


@click.command()
@client_options
@click.argument("names", nargs=-1, required=True, metavar="TOPIC[:PARTITION]...")
@json_option
def producers(bootstrap_server: str, names: tuple[str, ...], as_json: bool) -> None:
    """Show the idempotent and transactional producers that partitions know, and their open transactions.

    \b
    Examples:
      minikafka producers flights
      minikafka producers flights:0 --json
    """

    async def work(admin: Admin) -> None:
        chosen = await partitions_of(admin, names, bootstrap_server)
        led = await led_partitions(admin, chosen, bootstrap_server)
        found = [(tp, one) for tp in led for one in await admin.describe_producers(tp)]
        details = [{"topic": tp.topic, "partition": tp.partition, **asdict(one)} for tp, one in found]
        titles = ("topic", "partition", "producer id", "epoch", "sequence", "last record", "open since offset")
        lines = table(titles, [row_of(tp, one) for tp, one in found]) if found else ["No producers."]
        output(details, lines, as_json=as_json)
        report_leaderless(chosen, led, "producers")

    with_admin(bootstrap_server, work)


def row_of(tp: TopicPartition, one: ProducerState) -> list[object]:
    """The table row of a producer; `-` if no transaction is open."""
    start = "-" if one.transaction_start_offset is None else one.transaction_start_offset
    last = iso_time(one.last_timestamp_ms)
    return [tp.topic, tp.partition, one.producer_id, one.producer_epoch, one.last_sequence, last, start]
