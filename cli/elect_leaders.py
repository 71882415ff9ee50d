"""`minikafka elect-leaders`: have partitions led by their preferred replicas, or by any that lives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from minikafka.cli.options import client_options
from minikafka.cli.running import with_admin
from minikafka.cli.tables import counted

if TYPE_CHECKING:
    from minikafka.client import Admin, TopicPartition


@click.command("elect-leaders")
@client_options
@click.argument("names", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
@click.option(
    "--unclean",
    is_flag=True,
    help="Where nobody in sync lives, let any replica lead: what only the others have is lost.",
)
def elect_leaders(bootstrap_server: str, names: tuple[str, ...], unclean: bool) -> None:
    """Have the first replica of each partition lead again, where it is in sync.

    Without a name all partitions that need it.

    \b
    Examples:
      minikafka elect-leaders
      minikafka elect-leaders flights
      minikafka elect-leaders flights:0 --unclean
    """
    from minikafka.protocol.errors import ElectionNotNeededError

    async def work(admin: Admin) -> None:
        chosen = await partitions_of(admin, names) if names else None
        results = await admin.elect_leaders(chosen, unclean=unclean)
        faults: list[str] = []
        elected = 0
        for tp, error in sorted(results.items()):
            if error is None:
                elected += 1
                click.echo(f"Elected a leader for {tp.topic}-{tp.partition}.")
            elif not isinstance(error, ElectionNotNeededError):
                faults.append(str(error))
        if not elected and not faults:
            click.echo(f"No election was needed ({counted(len(results), 'partition')}).")
        if faults:
            raise click.ClickException("\n".join(faults))

    with_admin(bootstrap_server, work)


async def partitions_of(admin: Admin, names: Sequence[str]) -> list[TopicPartition]:
    """The partitions that `TOPIC` or `TOPIC:PARTITION` stand for.

    Raises click.UsageError for what is neither, KafkaError for a topic that is not there.
    """
    from minikafka.client import TopicPartition

    found: list[TopicPartition] = []
    for name in names:
        topic, colon, partition = name.partition(":")
        if not colon:
            found += [TopicPartition(topic, one.index) for one in (await admin.describe_topic(topic)).partitions]
        elif partition.isdecimal():
            found.append(TopicPartition(topic, int(partition)))
        else:
            raise click.UsageError(f"{name!r} is not TOPIC or TOPIC:PARTITION")
    return list(dict.fromkeys(found))
