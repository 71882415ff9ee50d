"""`minikafka consume`: records become lines.

Records are taken in polls of up to POLL_RECORDS, each poll is written at once, and only what was written is committed:
a run that ends because nobody reads its output any more (`| head`), or by Ctrl-C while that is stuck, leaves the rest
to the group. Writing happens in a worker thread, so that heartbeats go on while a pager waits for its reader.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.options import (
    Escaped,
    NameValue,
    check_partition,
    client_arguments,
    client_options,
    find_topic,
)
from minikafka.cli.running import Stop, run
from minikafka.cli.template import FIELDS, Render, json_line, template, value_line
from minikafka.cli.times import KNOWN, parse_time

if TYPE_CHECKING:
    from minikafka.client import Consumer, ConsumerRecord, TopicPartition

    OffsetType = click.ParamType[str | int]
    TimeType = click.ParamType[int]
else:  # Before click 8.4 the class takes no argument.
    OffsetType = TimeType = click.ParamType

POLL_RECORDS = 5_000
LOOK_INTERVAL_MS = 250
"""How often, while nothing comes, it is looked whether anybody still reads the output."""


class Offset(OffsetType):
    """`earliest`, `latest`, a number, or minus a number: so many before the end."""

    name = "offset"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        if isinstance(value, int) or value in ("earliest", "latest"):
            return value
        if not value.removeprefix("-").isdecimal():
            self.fail(f"{value!r} is no offset: give a number, earliest, latest, or -N for the last N", param, ctx)
        return int(value)


class Time(TimeType):
    """A point in time, as ms since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_time(value, time.time_ns() // 1_000_000)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(
    epilog="\b\nLetters of --format (kcat's where they fit):\n"
    + "\n".join(f"  %{letter}  {words}" for letter, (words, _) in FIELDS.items())
    + "\n  %%  a percent sign\nand \\n \\t \\r \\0 \\\\ \\xHH as usual."
)
@client_options
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--from-beginning", is_flag=True, help="All records; for a group, where it has committed nothing.")
@click.option("--offset", type=Offset(), help="A number or -N, the last N (with --partition); earliest, latest.")
@click.option("--partition", "partitions", multiple=True, type=click.IntRange(0), help="Only this one; repeatable.")
@click.option("--since", type=Time(), metavar="TIME", help=f"Records from then on: {KNOWN}.")
@click.option("--max-messages", "-n", type=click.IntRange(1), help="End after so many.")
@click.option("--group", help="Read as a member of this group, and commit.")
@click.option("--timeout-ms", type=click.IntRange(0), help="End when nothing has come for so long.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="read_committed leaves out records of aborted transactions.",
)
@click.option("--format", "-f", "template_text", help="A template such as '%k\\t%v'; its letters are listed below.")
@click.option("--json", "as_json", is_flag=True, help='One object a line; bytes that are no text as {"base64": …}.')
@click.option("--null", type=Escaped(), default="null", show_default=True, help="What stands for null.")
@click.option("--delimiter", type=Escaped(), help=r"What comes after each record.  [default: \n]")
@click.option("--option", "--property", "options", multiple=True, type=NameValue(), help="Of the consumer.")
def consume(
    bootstrap_server: str,
    topics: tuple[str, ...],
    from_beginning: bool,
    offset: str | int | None,
    partitions: tuple[int, ...],
    since: int | None,
    max_messages: int | None,
    group: str | None,
    timeout_ms: int | None,
    isolation_level: str | None,
    template_text: str | None,
    as_json: bool,
    null: bytes,
    delimiter: bytes | None,
    options: tuple[tuple[str, str], ...],
) -> None:
    """Print the records of one or more TOPICs as they come, one a line, until Ctrl-C.

    Begins with what is written from now on, or where --from-beginning, --offset or --since say.

    \b
    Examples:
      minikafka consume flights --from-beginning --timeout-ms 1000
      minikafka consume flights --since -10m --format '%p %o %I %k %v' --max-messages 5
      minikafka consume flights --partition 0 --offset -10 --json --max-messages 10
      minikafka consume flights --group delays --from-beginning --timeout-ms 2000
    """
    from minikafka.client.options import ConsumerOptions

    start = Start(topics, partitions, offset, since, group, from_beginning)
    start.check()
    render = renderer(template_text, as_json=as_json, null=null)
    if delimiter is None:
        delimiter = b"" if template_text and template_text.endswith("\\n") else b"\n"
    arguments = client_arguments(
        ConsumerOptions,
        bootstrap_server,
        options,
        group_id=group,
        auto_offset_reset=start.reset,
        isolation_level=isolation_level,
        allow_auto_create_topics=False,
    )
    printing = Printing(render, delimiter, max_messages, timeout_ms)

    async def work(stop: Stop) -> None:
        await printing.run(arguments, start, bootstrap_server, stop)

    run(work)


def renderer(template_text: str | None, *, as_json: bool, null: bytes) -> Render:
    """How records are printed. Raises click.UsageError."""
    if template_text is None:
        return json_line if as_json else value_line(null)
    if as_json:
        raise click.UsageError("--format and --json exclude each other")
    try:
        return template(template_text, null=null)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None


@dataclass(frozen=True)
class Start:
    """What is read, and from where."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...] = ()
    offset: str | int | None = None
    since: int | None = None
    group: str | None = None
    from_beginning: bool = False

    def check(self) -> None:
        """Raise click.UsageError for what does not go together."""
        places = {
            "--from-beginning": self.from_beginning,
            "--offset": self.offset is not None,
            "--since": self.since is not None,
        }
        given = [name for name, there in places.items() if there]
        if len(given) > 1:
            raise click.UsageError(f"{' and '.join(given)} exclude each other")
        if isinstance(self.offset, int) and not self.partitions:
            raise click.UsageError(f"--offset {self.offset} needs --partition: each partition counts for itself")
        if self.group is not None:
            for name, there in {**places, "--from-beginning": False, "--partition": bool(self.partitions)}.items():
                if there:
                    raise click.UsageError(f"{name} goes without --group: a group shares partitions and keeps offsets")

    @property
    def reset(self) -> str:
        """auto.offset.reset."""
        if isinstance(self.offset, str):
            return self.offset
        if isinstance(self.offset, int):
            return "none"
        return "earliest" if self.from_beginning else "latest"

    async def apply(self, consumer: Consumer, bootstrap_server: str) -> None:
        """Make a consumer begin there. Raises click.ClickException for what is not there, KafkaError."""
        from minikafka.client import TopicPartition

        chosen: list[TopicPartition] = []
        for topic in self.topics:
            count = await find_topic(consumer, topic, bootstrap_server)
            for partition in self.partitions:
                check_partition(topic, count, partition)
            chosen += [TopicPartition(topic, one) for one in self.partitions]
        places = await self._places(consumer, chosen)
        if chosen:
            consumer.assign(chosen)
        else:
            await consumer.subscribe(self.topics)
        for tp, place in places.items():
            consumer.seek(tp, place)
        if self.since is not None:
            await consumer.seek_to_time(self.since)

    async def _places(self, consumer: Consumer, chosen: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Where to begin by --offset with a number; known before anything is assigned, as reading begins then."""
        offset = self.offset
        if not isinstance(offset, int):
            return {}
        first, end = await consumer.beginning_offsets(chosen), await consumer.end_offsets(chosen)
        for tp in chosen:
            if offset > end[tp] or 0 <= offset < first[tp]:
                raise click.ClickException(
                    f"partition {tp.partition} of topic {tp.topic!r} has no offset {offset}: "
                    f"it has those from {first[tp]} on, and {end[tp]} comes next"
                )
        return {tp: offset if offset >= 0 else max(first[tp], end[tp] + offset) for tp in chosen}


class NobodyReads(Exception):
    """What was printed to has been closed, or a signal came before all of it was taken."""


class Printing:
    """One run: from the first record to the last."""

    def __init__(self, render: Render, delimiter: bytes, max_messages: int | None, timeout_ms: int | None) -> None:
        self._render = render
        self._delimiter = delimiter
        self._left = max_messages
        self._timeout_ms = timeout_ms
        self._descriptor = sys.stdout.fileno()

    async def run(self, arguments: dict[str, Any], start: Start, bootstrap_server: str, stop: Stop) -> None:
        """Print until the end that was asked for. Raises click.ClickException and KafkaError."""
        from minikafka.client import Consumer

        try:
            async with Consumer(**arguments) as consumer:
                with stop.interruptible():
                    await start.apply(consumer, bootstrap_server)
                if not stop.signal:
                    await self._print_all(consumer, stop)
        except NobodyReads:
            pass

    async def _print_all(self, consumer: Consumer, stop: Stop) -> None:
        idle_since = time.monotonic()
        while not stop.signal and self._left != 0:
            records: list[ConsumerRecord] = []
            with stop.interruptible():
                records = await consumer.poll(self._wait_ms(idle_since), min(POLL_RECORDS, self._left or POLL_RECORDS))
            if records:
                await self._write(records, stop)
                idle_since = time.monotonic()
            elif nobody_reads(self._descriptor):
                raise NobodyReads
            elif self._timeout_ms is not None and self._wait_ms(idle_since) == 0:
                return

    def _wait_ms(self, idle_since: float) -> float:
        if self._timeout_ms is None:
            return LOOK_INTERVAL_MS
        left_ms = self._timeout_ms - (time.monotonic() - idle_since) * 1000
        return max(0.0, min(LOOK_INTERVAL_MS, left_ms))

    async def _write(self, records: list[ConsumerRecord], stop: Stop) -> None:
        from anyio.to_thread import run_sync

        if self._left is not None:
            self._left -= len(records)
        lines = [self._render(record) for record in records]
        data = self._delimiter.join([*lines, b""])
        with stop.interruptible() as scope:
            await run_sync(write_all, self._descriptor, data, abandon_on_cancel=True)
        if scope.cancelled_caught:
            raise NobodyReads


def write_all(descriptor: int, data: bytes, write: Callable[[int, memoryview], int] = os.write) -> None:
    """All of it, however long that takes. Raises NobodyReads where the pipe was closed."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[write(descriptor, rest) :]
    except BrokenPipeError:
        raise NobodyReads from None


def nobody_reads(descriptor: int) -> bool:
    """Whether the other end of a pipe is closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
