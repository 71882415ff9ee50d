"""Computes the new offsets of a consumer group for `minikafka groups reset-offsets`; reads and writes plans as CSV.

Source: Kafka's `ConsumerGroupCommand` and `OffsetsUtils`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from minikafka.cli.arguments.json_files import read_input
from minikafka.cli.arguments.numbers import whole
from minikafka.cli.arguments.options import no_topic
from minikafka.cli.commands.group_rows import led_partitions
from minikafka.cli.terminal.output import echo

if TYPE_CHECKING:
    from minikafka.client import Admin, TopicPartition

Offsets = dict["TopicPartition", int]
WITHOUT_GROUP = ("topic", "partition", "offset")


class Change(NamedTuple):
    """The committed offset of a partition (`old`), None if there is none, and the new offset."""

    partition: TopicPartition
    old: int | None
    new: int


@dataclass(frozen=True)
class Scenario:
    """The way in which new offsets are found: `name` is the option, `value` its number, `planned` a file's offsets."""

    name: str
    value: int = 0
    planned: Offsets | None = None

    @classmethod
    def chosen(
        cls,
        planned: Offsets | None,
        *,
        to_earliest: bool,
        to_latest: bool,
        to_current: bool,
        to_offset: int | None,
        shift_by: int | None,
        to_time: int | None,
    ) -> Scenario:
        """The scenario of the only option that is given. Raises click.UsageError for none or several."""
        flags = {"--to-earliest": to_earliest, "--to-latest": to_latest, "--to-current": to_current}
        numbers = {"--to-offset": to_offset, "--shift-by": shift_by, "--to-time": to_time}
        given = [cls(name) for name, is_given in flags.items() if is_given]
        given += [cls(name, value) for name, value in numbers.items() if value is not None]
        if planned is not None:
            given.append(cls("--from-file", planned=planned))
        if len(given) > 1:
            raise click.UsageError(f"{' and '.join(one.name for one in given)} are mutually exclusive")
        if not given:
            raise click.UsageError(f"give one of {', '.join([*flags, *numbers, '--from-file'])}")
        return given[0]


async def plan_changes(
    admin: Admin, group_id: str, scenario: Scenario, topics: Sequence[str] | None, bootstrap_server: str
) -> list[Change]:
    """The changes of a scenario, sorted.

    Args:
        admin: the client.
        group_id: the group.
        scenario: the way in which the new offsets are found.
        topics: arguments like `TOPIC` or `TOPIC:0,1`; None for all partitions with committed offsets.
        bootstrap_server: the brokers, for error messages.

    Raises click.ClickException for topics or partitions that do not exist and offsets to shift that are missing;
    KafkaError.
    """
    committed = {tp: one.offset for tp, one in (await admin.list_group_offsets(group_id)).items()}
    if scenario.planned is not None:
        chosen = list(scenario.planned)
        await check_existing(admin, chosen, bootstrap_server)
    elif topics is None:
        chosen = list(committed)
        await check_existing(admin, chosen, bootstrap_server)
    else:
        chosen = await chosen_partitions(admin, topics, bootstrap_server)
    new = await new_offsets(admin, scenario, sorted(chosen), committed)
    return [Change(tp, committed.get(tp), offset) for tp, offset in sorted(new.items())]


async def new_offsets(
    admin: Admin, scenario: Scenario, partitions: Sequence[TopicPartition], committed: Mapping[TopicPartition, int]
) -> Offsets:
    """The new offset of each partition."""
    from minikafka.client import EARLIEST, LATEST

    match scenario.name:
        case "--to-earliest":
            return await offsets_at(admin, partitions, EARLIEST)
        case "--to-latest":
            return await offsets_at(admin, partitions, LATEST)
        case "--to-current":
            ends = await offsets_at(admin, [tp for tp in partitions if tp not in committed], LATEST)
            return {tp: committed[tp] if tp in committed else ends[tp] for tp in partitions}
        case "--to-time":
            return await offsets_since(admin, partitions, scenario.value)
        case "--to-offset":
            return await clamped(admin, dict.fromkeys(partitions, scenario.value))
        case "--shift-by":
            for tp in partitions:
                if tp not in committed:
                    raise click.ClickException(
                        f"Cannot shift offset for partition {tp} since there is no current committed offset"
                    )
            return await clamped(admin, {tp: committed[tp] + scenario.value for tp in partitions})
    assert scenario.planned is not None
    return await clamped(admin, scenario.planned)


async def offsets_at(admin: Admin, partitions: Sequence[TopicPartition], which: int) -> Offsets:
    """The first or the end offset of each partition."""
    found = await admin.list_offsets(dict.fromkeys(partitions, which))
    return {tp: one.offset for tp, one in found.items()}


async def offsets_since(admin: Admin, partitions: Sequence[TopicPartition], time_ms: int) -> Offsets:
    """The offset of the first record of each partition since a time; if there is none, the end, with a warning."""
    from minikafka.client import LATEST

    found = await offsets_at(admin, partitions, time_ms)
    without = [tp for tp in partitions if found[tp] < 0]
    for tp in without:
        echo(
            f"Warn: Partition {tp.partition} from topic {tp.topic} has no record since then. "
            "Falling back to latest known offset.",
            err=True,
        )
    return found | await offsets_at(admin, without, LATEST)


async def clamped(admin: Admin, wanted: Mapping[TopicPartition, int]) -> Offsets:
    """The wanted offsets, with offsets out of range replaced by the first or the end offset, with a warning."""
    from minikafka.client import EARLIEST, LATEST

    first = await offsets_at(admin, list(wanted), EARLIEST)
    end = await offsets_at(admin, list(wanted), LATEST)
    for tp, offset in wanted.items():
        if not first[tp] <= offset <= end[tp]:
            what, new = ("higher than latest", end[tp]) if offset > end[tp] else ("lower than earliest", first[tp])
            echo(
                f"New offset ({offset}) is {what} offset for topic partition {tp}. Value will be set to {new}",
                err=True,
            )
    return {tp: min(max(offset, first[tp]), end[tp]) for tp, offset in wanted.items()}


async def chosen_partitions(admin: Admin, topics: Sequence[str], bootstrap_server: str) -> list[TopicPartition]:
    """The partitions of `TOPIC` or `TOPIC:0,1` arguments. Raises click.ClickException."""
    from minikafka.client import TopicPartition

    found: list[TopicPartition] = []
    for text in topics:
        topic, colon, numbers = text.partition(":")
        if not colon:
            found += await partitions_of(admin, topic, bootstrap_server)
            continue
        for number in numbers.split(","):
            partition = whole(number, bits=32, least=0)
            if partition is None:
                raise click.UsageError(f"Invalid partition '{number}' specified in topic arg '{text}'")
            found.append(TopicPartition(topic, partition))
    await check_existing(admin, found, bootstrap_server)
    return list(dict.fromkeys(found))


async def partitions_of(admin: Admin, topic: str, bootstrap_server: str) -> list[TopicPartition]:
    """All partitions of a topic. Raises click.ClickException if it does not exist."""
    from minikafka.client import TopicPartition

    described = (await admin.describe_topics([topic]))[topic]
    partitions = getattr(described, "partitions", None)
    if partitions is None:
        raise await no_topic(admin, topic, bootstrap_server)
    return [TopicPartition(topic, one.index) for one in partitions]


async def check_existing(admin: Admin, partitions: Sequence[TopicPartition], bootstrap_server: str) -> None:
    """Raise click.ClickException if a topic or a partition does not exist."""
    existing = await led_partitions(admin, partitions)
    topics = {tp.topic for tp in existing}
    for tp in partitions:
        if tp.topic not in topics:
            raise await no_topic(admin, tp.topic, bootstrap_server)
    missing = [str(tp) for tp in partitions if tp not in existing]
    if missing:
        raise click.ClickException(f'The partitions "{", ".join(missing)}" do not exist')


def read_csv(path: Path, group_id: str) -> Offsets:
    """Read the offsets of a group from a CSV file. Raises click.ClickException."""
    try:
        text = read_input(path).decode()
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{path} is not a CSV file: {error}") from None
    return parse_csv(text, group_id, str(path))


def parse_csv(text: str, group_id: str, name: str) -> Offsets:
    """Parse lines of `topic,partition,offset` or `group,topic,partition,offset`; lines of other groups are skipped.

    Raises click.ClickException for other lines, a partition that is listed twice, and a file without the group.
    """
    from minikafka.client import TopicPartition

    found: Offsets = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        *group, topic, partition_text, offset_text = row if len(row) in (3, 4) else [*WITHOUT_GROUP]
        partition, offset = whole(partition_text, bits=32, least=0), whole(offset_text, least=0)
        if partition is None or offset is None:
            raise click.ClickException(
                f"line {number} of {name} is not topic,partition,offset or group,topic,partition,offset: {row}"
            )
        if group and group[0] != group_id:
            continue
        tp = TopicPartition(topic, partition)
        if tp in found:
            raise click.ClickException(f"line {number} of {name} lists {tp} again")
        found[tp] = offset
    if not found:
        raise click.ClickException(f"No reset plan for group {group_id} found in {name}")
    return found


def export_text(changes: Sequence[Change]) -> str:
    """The new offsets as CSV without the group, as Kafka's tool prints them for one group."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows((one.partition.topic, one.partition.partition, one.new) for one in changes)
    return out.getvalue()
