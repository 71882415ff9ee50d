"""`minikafka elect-leaders`: preferred and unclean leader elections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from minikafka.cli.arguments.numbers import whole
from minikafka.cli.arguments.options import client_options, no_topic
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import json_option, report
from minikafka.protocol.counted import counted

if TYPE_CHECKING:
    from minikafka.client import Admin, TopicPartition


@click.command("elect-leaders")
@client_options
@click.argument("names", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
@click.option(
    "--unclean",
    is_flag=True,
    help="If no in-sync replica is live, elect any live replica; records that it lacks are lost.",
)
@json_option
def elect_leaders(bootstrap_server: str, names: tuple[str, ...], unclean: bool, as_json: bool) -> None:
    """Elect the preferred (first) replica of each partition as leader, if it is in sync.

    Without arguments, elects leaders for all partitions that are not led by their preferred replica.

    \b
    Examples:
      minikafka elect-leaders
      minikafka elect-leaders flights
      minikafka elect-leaders flights:0 --unclean
    """
    from minikafka.protocol.errors import ElectionNotNeededError

    async def work(admin: Admin) -> None:
        chosen = await partitions_of(admin, names, bootstrap_server) if names else None
        results = await admin.elect_leaders(chosen, unclean=unclean)
        elected = [tp for tp, error in sorted(results.items()) if error is None]
        errors = [one for _, one in sorted(results.items()) if one and not isinstance(one, ElectionNotNeededError)]
        lines = [f"Elected a leader for {tp.topic}-{tp.partition}." for tp in elected]
        if not elected and not errors:
            lines = [f"No election was needed ({counted(len(results), 'partition')})."]
        details = [{"topic": tp.topic, "partition": tp.partition} for tp in elected]
        report(details, lines, errors, done=len(elected), as_json=as_json)

    with_admin(bootstrap_server, work)


async def partitions_of(admin: Admin, names: Sequence[str], bootstrap_server: str) -> list[TopicPartition]:
    """The partitions of `TOPIC` or `TOPIC:PARTITION` arguments.

    Raises click.UsageError for another format, click.ClickException for a missing topic, KafkaError.
    """
    from minikafka.client import TopicPartition
    from minikafka.protocol.errors import UnknownTopicOrPartitionError

    found: list[TopicPartition] = []
    for name in names:
        topic, colon, partition = name.partition(":")
        if not colon:
            try:
                found += [TopicPartition(topic, one.index) for one in (await admin.describe_topic(topic)).partitions]
            except UnknownTopicOrPartitionError:
                raise await no_topic(admin, topic, bootstrap_server) from None
        elif (index := whole(partition, bits=32, least=0)) is not None:
            found.append(TopicPartition(topic, index))
        else:
            raise click.UsageError(f"{name!r} is not TOPIC or TOPIC:PARTITION")
    return list(dict.fromkeys(found))
