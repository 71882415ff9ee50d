"""`minikafka delete-records`: deletes the first records of partitions, like `kafka-delete-records` (KIP-107)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.json_files import read_json
from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.arguments.options import Time, client_options
from minikafka.cli.arguments.times import KNOWN
from minikafka.cli.commands.elect_leaders import partitions_of
from minikafka.cli.commands.offsets import NOWHERE, led_partitions
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.failures import Failure, fail_if, failure
from minikafka.cli.terminal.output import json_option, report
from minikafka.cli.terminal.tables import table

if TYPE_CHECKING:
    from minikafka.client import Admin, KafkaError, TopicPartition

HIGH_WATERMARK = -1


@click.command("delete-records")
@client_options
@click.argument("names", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
@click.option("--before", "offset", type=Whole(0), metavar="OFFSET", help="Delete the records before this offset.")
@click.option("--before-time", "time_ms", type=Time(), help=f"Delete the records before this time, {KNOWN}.")
@click.option("--all", "everything", is_flag=True, help="Delete all records, up to the high watermark.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Offsets of partitions, in the JSON of kafka-delete-records: "
    '{"partitions": [{"topic", "partition", "offset"}]}.',
)
@json_option
def delete_records(
    bootstrap_server: str,
    names: tuple[str, ...],
    offset: int | None,
    time_ms: int | None,
    everything: bool,
    from_file: Path | None,
    as_json: bool,
) -> None:
    """Delete the oldest records of partitions for good, and print the first offset that remains in each.

    A TOPIC stands for all of its partitions. A topic with cleanup.policy=compact refuses it, unless the policy is also
    delete.

    \b
    Examples:
      minikafka delete-records flights:0 --before 1000
      minikafka delete-records flights --before-time -7d
      minikafka delete-records --from-file offsets.json
    """
    limits = (offset is not None) + (time_ms is not None) + everything
    if from_file is not None and (limits or names):
        raise click.UsageError("--from-file has the partitions and offsets: no other may be given")
    if from_file is None and (limits != 1 or not names):
        raise click.UsageError("give topics or partitions, and one of --before, --before-time and --all")

    async def work(admin: Admin) -> None:
        from minikafka.protocol.errors import KafkaError

        planned = {} if from_file is None else parse_plan(from_file)
        chosen = list(planned) or await partitions_of(admin, names, bootstrap_server)
        await check_led(admin, chosen, bootstrap_server)
        before = planned or dict.fromkeys(chosen, HIGH_WATERMARK if offset is None else offset)
        if time_ms is not None:
            found = await admin.list_offsets(dict.fromkeys(chosen, time_ms))
            before = {tp: HIGH_WATERMARK if one.offset == NOWHERE else one.offset for tp, one in found.items()}
        results = sorted((await admin.delete_records(before)).items())
        done = [(tp, one) for tp, one in results if not isinstance(one, KafkaError)]
        details = [{"topic": tp.topic, "partition": tp.partition, "first": first} for tp, first in done]
        rows = [[tp.topic, tp.partition, first] for tp, first in done]
        errors = [refusal(tp, before[tp], one) for tp, one in results if isinstance(one, KafkaError)]
        report(details, table(("topic", "partition", "first"), rows), errors, done=len(done), as_json=as_json)

    with_admin(bootstrap_server, work)


async def check_led(admin: Admin, chosen: Sequence[TopicPartition], bootstrap_server: str) -> None:
    """Raise click.ClickException for partitions that do not exist or have no leader, before any record is deleted."""
    led = await led_partitions(admin, chosen, bootstrap_server)
    fail_if(f"{tp} has no leader, so that nothing was deleted" for tp in chosen if tp not in led)


def refusal(tp: TopicPartition, offset: int, error: KafkaError) -> Failure:
    """The error of a partition whose records were not deleted."""
    from minikafka.protocol.errors import OffsetOutOfRangeError

    if isinstance(error, OffsetOutOfRangeError):
        shows = f"`minikafka offsets {tp.topic}:{tp.partition}` shows which there are"
        return failure(error, f"{tp} has no offset {offset}, so that nothing was deleted from it; {shows}")
    return failure(error)


def parse_plan(path: Path) -> dict[TopicPartition, int]:
    """Read the offsets by partition from a file for `kafka-delete-records`. Raises click.ClickException for another
    format."""

    def parse(found: Any) -> dict[TopicPartition, int]:
        return unique([one["topic"], one["partition"], one["offset"]] for one in found["partitions"])

    return read_json(path, parse, '{"partitions": [{"topic": …, "partition": …, "offset": …}]}', "")


def unique(entries: Iterable[list[Any]]) -> dict[TopicPartition, int]:
    """Convert entries to offsets by partition. Raises ValueError for a partition that is named twice, TypeError for
    values of other types."""
    from minikafka.client import TopicPartition

    before: dict[TopicPartition, int] = {}
    for topic, partition, offset in entries:
        if not (isinstance(topic, str) and type(partition) is int and type(offset) is int):
            raise TypeError(f"{[topic, partition, offset]}")
        if TopicPartition(topic, partition) in before:
            raise ValueError(f"{topic}-{partition} is there twice")
        before[TopicPartition(topic, partition)] = offset
    return before
