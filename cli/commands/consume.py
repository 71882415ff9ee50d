"""`minikafka consume`: prints records as lines.

Each poll takes up to `POLL_RECORDS` records and writes them at once. Only written records are committed. If the reader
of the output closes the pipe (`| head`) or the terminal, or Ctrl-C interrupts a blocked write, the records of this
write are not committed, because it is not known which of them were read, and the user is told. A worker thread writes,
so that heartbeats continue while a pager blocks.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.numbers import Whole, whole
from minikafka.cli.arguments.options import (
    Escaped,
    NameValue,
    Time,
    check_partition,
    client_arguments,
    client_options,
    find_topic,
)
from minikafka.cli.arguments.times import KNOWN
from minikafka.cli.records.template import FIELDS, Render, as_they_are, for_terminal, json_line, template, value_line
from minikafka.cli.running import Stop, run
from minikafka.cli.terminal.output import echo
from minikafka.cli.terminal.standard_streams import (
    TerminalClosed,
    is_closed,
    is_closed_terminal,
    is_unread,
    read_by_nobody,
)
from minikafka.protocol.counted import counted

if TYPE_CHECKING:
    from minikafka.client import Consumer, ConsumerRecord, TopicPartition

    OffsetType = click.ParamType[str | int]
else:  # Before click 8.4 the class takes no argument.
    OffsetType = click.ParamType

POLL_RECORDS = 5_000
PIPE_CHECK_INTERVAL_MS = 250
"""The interval of the checks for a closed output pipe while no records arrive."""
LAST_WRITE_S = 0.25
"""The time to wait for a write that a signal interrupts, so that records which its reader has are committed."""


class Offset(OffsetType):
    """The type of an option for a position: `earliest`, `latest`, an offset, or -N for N records before the end."""

    name = "offset"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        if isinstance(value, int) or value in ("earliest", "latest"):
            return value
        offset = whole(value)
        if offset is None:
            self.fail(f"{value!r} is not an offset: give a number, -N for the last N, earliest or latest", param, ctx)
        return offset


@click.command(
    epilog="\b\nFields of --format (letters as in kcat where it has them):\n"
    + "\n".join(f"  %{letter}  {words}" for letter, (words, _) in FIELDS.items())
    + "\n  %%  a percent sign\nand the escapes \\n \\t \\r \\0 \\\\ \\xHH."
)
@client_options
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Start at the earliest offset; with --group, in partitions without a committed offset.",
)
@click.option(
    "--offset",
    type=Offset(),
    help="Start at this offset or, with -N, at the last N records (both need --partition), or at earliest or latest.",
)
@click.option(
    "--partition", "partitions", multiple=True, type=Whole(0, bits=32), help="Read only this partition; repeatable."
)
@click.option("--since", type=Time(), metavar="TIME", help=f"Start at this time, {KNOWN}.")
@click.option(
    "--exit", "-e", "exits", is_flag=True, help="Exit after the last record that existed when the command started."
)
@click.option("--max-messages", "-n", metavar="N", type=Whole(1), help="Exit after N records.")
@click.option("--group", help="Join this consumer group and commit offsets.")
@click.option("--timeout-ms", type=Whole(0), help="Exit when no record has arrived for this many ms.  [default: never]")
@click.option(
    "--isolation-level",
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="read_committed skips records of aborted and open transactions.  [default: read_uncommitted]",
)
@click.option(
    "--format", "-f", "template_text", help="Template for each record, such as '%k\\t%v'; its fields are listed below."
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help='Print one JSON object per record; bytes that are not UTF-8 as {"base64": …}.',
)
@click.option("--null", type=Escaped(), default="null", show_default=True, help="Text printed for null.")
@click.option("--delimiter", type=Escaped(), help=r"Text printed after each record.  [default: \n]")
@click.option(
    "--option",
    "--property",
    "options",
    multiple=True,
    type=NameValue(),
    help="Consumer option, such as fetch.max.bytes=1048576; repeatable.",
)
def consume(
    bootstrap_server: str,
    topics: tuple[str, ...],
    from_beginning: bool,
    offset: str | int | None,
    partitions: tuple[int, ...],
    since: int | None,
    exits: bool,
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
    """Print the records of one or more TOPICs, one per line, until Ctrl-C.

    Starts with new records, unless --from-beginning, --offset or --since gives another position. With --group, starts
    at the group's committed offsets, and commits. Pipes and files receive the bytes of records as they are; on a
    terminal, control characters and bytes that are not UTF-8 are printed like \\x1b.

    \b
    Examples:
      minikafka consume flights --from-beginning --timeout-ms 1000
      minikafka consume flights --since -10m --format '%p %o %I %k %v' --max-messages 5
      minikafka consume flights --partition 0 --offset -10 --json --max-messages 10
      minikafka consume flights --group delays --from-beginning --exit
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
        stop_at="end" if exits else None,
        allow_auto_create_topics=False,
    )
    printing = Printing(render, delimiter, max_messages, timeout_ms)
    run(partial(printing.run, arguments, start, bootstrap_server))


def renderer(template_text: str | None, *, as_json: bool, null: bytes) -> Render:
    """The function that formats a record. Raises click.UsageError."""
    shown = for_terminal if sys.stdout.isatty() else as_they_are
    if template_text is None:
        return json_line if as_json else value_line(null, shown=shown)
    if as_json:
        raise click.UsageError("--format and --json are mutually exclusive")
    try:
        return template(template_text, null=null, shown=shown)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None


@dataclass(frozen=True)
class Start:
    """The topics or partitions to read, and the start position."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...] = ()
    offset: str | int | None = None
    since: int | None = None
    group: str | None = None
    from_beginning: bool = False

    def check(self) -> None:
        """Raise click.UsageError for options that exclude each other."""
        positions = {
            "--from-beginning": self.from_beginning,
            "--offset": self.offset is not None,
            "--since": self.since is not None,
        }
        chosen = [name for name, given in positions.items() if given]
        if len(chosen) > 1:
            raise click.UsageError(f"{' and '.join(chosen)} are mutually exclusive")
        if isinstance(self.offset, int) and not self.partitions:
            raise click.UsageError(f"--offset {self.offset} needs --partition: offsets are per partition")
        if self.group is not None:
            for name, given in {**positions, "--from-beginning": False, "--partition": bool(self.partitions)}.items():
                if given:
                    raise click.UsageError(
                        f"{name} cannot be used with --group: the group assigns partitions and stores offsets"
                    )

    @property
    def reset(self) -> str:
        """The value of auto.offset.reset."""
        if isinstance(self.offset, str):
            return self.offset
        if isinstance(self.offset, int):
            return "none"
        return "earliest" if self.from_beginning else "latest"

    async def apply(self, consumer: Consumer, bootstrap_server: str) -> None:
        """Subscribe or assign, and seek.

        Raises click.ClickException for a missing topic, partition or offset, KafkaError for other errors.
        """
        from minikafka.client import TopicPartition

        chosen: list[TopicPartition] = []
        for topic in self.topics:
            count = await find_topic(consumer, topic, bootstrap_server)
            for partition in self.partitions:
                check_partition(topic, count, partition)
            chosen += [TopicPartition(topic, one) for one in self.partitions]
        offsets = await self._offsets(consumer, chosen)
        if chosen:
            consumer.assign(chosen)
        else:
            await consumer.subscribe(self.topics)
        for tp, offset in offsets.items():
            consumer.seek(tp, offset)
        if self.since is not None:
            await consumer.seek_to_time(self.since)

    async def _offsets(self, consumer: Consumer, chosen: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Start offsets for a numeric --offset. Looked up before the assignment, which starts fetching."""
        offset = self.offset
        if not isinstance(offset, int):
            return {}
        first, end = await consumer.beginning_offsets(chosen), await consumer.end_offsets(chosen)
        for tp in chosen:
            if offset > end[tp] or 0 <= offset < first[tp]:
                raise click.ClickException(
                    f"partition {tp.partition} of topic {tp.topic!r} has no offset {offset}: "
                    f"its offsets start at {first[tp]}, and the next one is {end[tp]}"
                )
        return {tp: offset if offset >= 0 else max(first[tp], end[tp] + offset) for tp in chosen}


class OutputClosed(Exception):
    """The output was closed, or a signal interrupted a write."""


class Printing:
    """One run of the command."""

    def __init__(self, render: Render, delimiter: bytes, max_messages: int | None, timeout_ms: int | None) -> None:
        self._render = render
        self._delimiter = delimiter
        self._left = max_messages
        self._timeout_ms = timeout_ms
        self._commits: str | None = None
        """The group for which printed records are committed; None without a group or with commits disabled."""
        self._descriptor = sys.stdout.fileno()

    async def run(self, arguments: dict[str, Any], start: Start, bootstrap_server: str, stop: Stop) -> None:
        """Print records until a limit, the timeout or a signal. Raises click.ClickException and KafkaError."""
        from minikafka.client import Consumer

        self._commits = arguments.get("group_id") if arguments.get("enable_auto_commit", True) else None
        stop.starts = True
        stop.doing = lambda: "committing what was printed and leaving the group"
        try:
            async with Consumer(**arguments) as consumer:
                with stop.interruptible():
                    await start.apply(consumer, bootstrap_server)
                stop.starts = False
                if not stop.signal:
                    await self._print_all(consumer, stop)
        except OutputClosed:
            if is_closed_terminal(self._descriptor):
                raise TerminalClosed from None

    async def _print_all(self, consumer: Consumer, stop: Stop) -> None:
        idle_since = time.monotonic()
        while not stop.signal and self._left != 0:
            records: list[ConsumerRecord] = []
            with stop.interruptible():
                records = await consumer.poll(self._wait_ms(idle_since), min(POLL_RECORDS, self._left or POLL_RECORDS))
            if records:
                await self._write(records, stop)
                idle_since = time.monotonic()
            elif consumer.at_end():
                return
            elif is_closed(self._descriptor):
                raise OutputClosed
            elif self._timeout_ms is not None and self._wait_ms(idle_since) == 0:
                return

    def _wait_ms(self, idle_since: float) -> int:
        if self._timeout_ms is None:
            return PIPE_CHECK_INTERVAL_MS
        left_ms = self._timeout_ms - (time.monotonic() - idle_since) * 1000
        return max(0, min(PIPE_CHECK_INTERVAL_MS, math.ceil(left_ms)))

    async def _write(self, records: list[ConsumerRecord], stop: Stop) -> None:
        from anyio.to_thread import run_sync

        if self._left is not None:
            self._left -= len(records)
        lines = [self._render(record) for record in records]
        data = self._delimiter.join([*lines, b""])
        is_written = Event()

        def write() -> None:
            write_all(self._descriptor, data)
            is_written.set()

        try:
            with stop.interruptible():
                await run_sync(write, abandon_on_cancel=True)
            # A signal may arrive when the reader has all data, but before the writing thread has set `is_written`.
            if not (is_written.is_set() or await run_sync(is_written.wait, LAST_WRITE_S)):
                raise OutputClosed
        except OutputClosed:
            if self._commits is not None:
                left = f"Not printed completely, and not committed: the last {counted(len(records), 'record')}"
                with read_by_nobody():
                    echo(f"{left}, which group {self._commits!r} gets again.", err=True)
            raise


def write_all(descriptor: int, data: bytes, write: Callable[[int, memoryview], int] = os.write) -> None:
    """Write all bytes, blocking as long as needed. Raises OutputClosed if the pipe or the terminal is closed."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[write(descriptor, rest) :]
    except OSError as error:
        if not is_unread(error):
            raise
        raise OutputClosed from None
