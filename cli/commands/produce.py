"""`minikafka produce`: sends lines as records.

A worker thread waits for input (`lines.LineReader`), complete lines become keys and values (`lines.columns_of`), and
`Producer.send_many` queues them. `send_many` waits while the producer's buffer is full, which applies back-pressure to
the writer of the pipe. Deliveries are checked in order; the first failed delivery ends the command.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.arguments.options import (
    CODECS,
    Escaped,
    NameValue,
    check_partition,
    client_arguments,
    client_options,
    found_or_created,
)
from minikafka.cli.records.json_lines import JSON_SIZE_FACTOR, parse_record
from minikafka.cli.records.lines import BadLine, Columns, LineReader, columns_of
from minikafka.cli.records.spread import Spread
from minikafka.cli.running import Stop, run
from minikafka.cli.terminal.output import echo
from minikafka.cli.terminal.progress import Progress, progress
from minikafka.cli.terminal.standard_streams import must_be_read, read_by_nobody
from minikafka.protocol.counted import counted

if TYPE_CHECKING:
    from minikafka.client import Delivery, Producer

STANDARD_INPUT = 0


@click.command()
@client_options
@click.argument("topic")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--key-separator", type=Escaped(),
    help=r"Separator of key and value, such as : or \t.  [default: none; lines have no key]",
)
@click.option("--null", type=Escaped(), help="Text of a key or value that is sent as null.  [default: none]")
@click.option("--header", "headers", multiple=True, type=NameValue(), help="Header of every record; repeatable.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Each line is a JSON object as `consume --json` prints it: key, value, headers and timestamp of a record.",
)
@click.option("--partition", type=Whole(0, bits=32), help="Partition of all records.  [default: chosen by the key]")
@click.option("--compression-type", type=click.Choice(CODECS), help="Compression of batches.  [default: none]")
@click.option("--transactional-id", help="Send all lines in one transaction with this id.")
@click.option(
    "--acks", type=click.Choice(["all", "1", "0"]),
    help="Acknowledgements to wait for: of all in-sync replicas, of the leader (1), or none (0).  [default: all]",
)
@click.option(
    "--option",
    "--property",
    "options",
    multiple=True,
    type=NameValue(),
    help="Producer option, such as linger.ms=50; repeatable.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print no progress and no summary.")
def produce(
    bootstrap_server: str,
    topic: str,
    file: Path | None,
    key_separator: bytes | None,
    null: bytes | None,
    headers: tuple[tuple[str, str], ...],
    as_json: bool,
    partition: int | None,
    compression_type: str | None,
    transactional_id: str | None,
    acks: str | None,
    options: tuple[tuple[str, str], ...],
    quiet: bool,
) -> None:
    """Send each line of FILE, or of standard input, as a record to TOPIC.

    Progress and a summary go to standard error. Ctrl-C delivers the lines that were read so far, and exits. SIGTERM
    does so too, but gives up after five seconds. With --transactional-id, consumers with isolation level
    read_committed see all lines or none. Ctrl-C and errors then abort the transaction, and the summary says so.

    \b
    Examples:
      echo hello | minikafka produce greetings
      minikafka produce flights flights.txt --key-separator '\\t' --compression-type zstd
      minikafka produce flights flights.txt --header source=nyc --option linger.ms=50
      minikafka produce flights flights.json --json
    """
    from minikafka.client.options import ProducerOptions

    check_format(key_separator, null, as_json=as_json)
    arguments = client_arguments(
        ProducerOptions,
        bootstrap_server,
        options,
        compression_type=compression_type,
        acks=acks,
        transactional_id=transactional_id,
    )
    encoded = tuple((name, value.encode(errors="surrogateescape")) for name, value in headers)
    job = Job(topic, bootstrap_server, key_separator, null, encoded, partition, as_json)
    with opened(file) as descriptor:
        total = (os.fstat(descriptor).st_size or None) if file else None
        shown = progress(size_bytes_total=total, wanted=not quiet and not os.isatty(descriptor))
        if os.isatty(descriptor) and not quiet:
            echo("Each line is sent as a record; Ctrl-D exits.", err=True)
        with must_be_read():
            run(partial(Sending(job, descriptor, shown, quiet=quiet).run, arguments))


def check_format(key_separator: bytes | None, null: bytes | None, *, as_json: bool) -> None:
    """Raise click.UsageError for options that exclude each other."""
    if key_separator == b"":
        raise click.BadParameter("must not be empty", param_hint="--key-separator")
    if as_json and (key_separator is not None or null is not None):
        raise click.UsageError("--json excludes --key-separator and --null: a JSON object has a key, and null")


class _Aborted(Exception):
    """The transaction is to be aborted because of Ctrl-C, or an error of a line."""


@dataclass(frozen=True)
class Job:
    """The destination of the lines, and the options by which lines become records."""

    topic: str
    bootstrap_server: str
    separator: bytes | None
    null: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None
    as_json: bool = False


@contextlib.contextmanager
def opened(file: Path | None) -> Iterator[int]:
    """Open the descriptor to read from: FILE or standard input."""
    if file is None or str(file) == "-":
        yield STANDARD_INPUT
    else:
        with file.open("rb", buffering=0) as raw:
            yield raw.fileno()


class Sending:
    """One run of the command."""

    def __init__(self, job: Job, descriptor: int, shown: Progress, *, quiet: bool) -> None:
        self._job = job
        self._descriptor = descriptor
        self._shown = shown
        self._quiet = quiet
        self._waiting: deque[Delivery] = deque()
        self._read = self._sent = self._delivered = self._unknown = self._size_bytes = 0
        self._error = self._outcome = ""
        self._counting = Lock()
        self._is_summed_up = self._commits = False
        self._spread = Spread(Random())

    async def run(self, arguments: dict[str, Any], stop: Stop) -> None:
        """Send all lines and print a summary. Raises click.ClickException, and KafkaError before the first line."""
        from minikafka.client import Producer

        job = self._job
        started = time.monotonic()
        stop.starts, stop.last_words = True, partial(self._sum_up, started)
        try:
            async with Producer(**arguments) as producer:
                partitions = await found_or_created(producer, job.topic, job.bootstrap_server, quiet=self._quiet)
                if job.partition is not None:
                    check_partition(job.topic, partitions, job.partition)
                stop.starts = False
                stop.doing = self._doing
                with self._shown:
                    if arguments.get("transactional_id") is None:
                        await self._send_and_deliver(producer, arguments, stop)
                    else:
                        await self._send_in_transaction(producer, arguments, stop)
        finally:
            with read_by_nobody():
                self._sum_up(started)
        if self._error:
            raise click.ClickException(self._error)

    def _sum_up(self, started: float) -> None:
        """Print the summary once, with `--quiet` only if lines were not delivered."""
        self._settle(all_of_them=True)
        with self._counting:
            is_first, self._is_summed_up = not self._is_summed_up, True
        is_whole = self._delivered == self._read and not self._outcome
        if is_first and self._read and (not self._quiet or not is_whole):
            echo(self.summary(time.monotonic() - started), err=True)

    async def _send_and_deliver(self, producer: Producer, arguments: dict[str, Any], stop: Stop) -> None:
        await self._send_all(producer, arguments, stop)
        self._settle()
        await producer.flush()
        self._settle()

    async def _send_in_transaction(self, producer: Producer, arguments: dict[str, Any], stop: Stop) -> None:
        """Commit all lines, or abort; the summary says if they are not committed. The first Ctrl-C aborts."""
        from minikafka.client.options import ProducerOptions

        limit_ms = arguments.get("transaction_timeout_ms", ProducerOptions.defaults()["transaction_timeout_ms"])
        stop.doing = lambda: f"{'committing' if self._commits else 'aborting'} the transaction"
        self._outcome = f"the transaction is not ended: the cluster aborts it after {limit_ms / 1000:g} s"
        try:
            async with producer.transaction():
                with stop.interruptible():
                    await self._send_and_deliver(producer, arguments, stop)
                if stop.signal or self._error:
                    raise _Aborted
                self._commits = True
                self._outcome = "it is not known whether the transaction is committed"
            self._outcome = ""
        except Exception as error:
            if not self._commits:
                self._outcome = "; ".join(getattr(error, "__notes__", [])) or "the transaction was aborted"
            if not isinstance(error, _Aborted):
                raise
            self._settle(all_of_them=True, fails=False)

    def summary(self, elapsed_s: float) -> str:
        """The number of records, and the rate."""
        elapsed_s = max(elapsed_s, 1e-6)
        rate, megabytes = self._delivered / elapsed_s, self._size_bytes / elapsed_s / (1 << 20)
        records = counted(self._delivered, "record")
        if self._delivered < self._read:
            records = f"{self._delivered:,} of {counted(self._read, 'record')}"
        missing = self._missing()
        speed = f"{rate:,.0f} records/s, {megabytes:.2f} MB/s"
        outcome = f"; {self._outcome}" if self._outcome else ""
        return f"{records} to {self._job.topic} in {elapsed_s:.2f} s: {speed}{missing}{outcome}"

    def _missing(self) -> str:
        """The part of the summary about records that were not delivered, and about records without an acknowledgement,
        which may have been delivered if a response was lost."""
        unknown = 0 if self._outcome else self._unknown
        refused = self._read - self._delivered - unknown
        said = f"; {refused:,} not delivered" if refused else ""
        return said + (f"; {unknown:,} not acknowledged, which may be in the topic" if unknown else "")

    def _doing(self) -> str:
        """The work that remains after the first Ctrl-C, in words."""
        return f"delivering the lines read so far, {self._read - self._delivered:,} to go"

    async def _send_all(self, producer: Producer, arguments: dict[str, Any], stop: Stop) -> None:
        from anyio.to_thread import run_sync

        from minikafka.client.options import ProducerOptions

        size_max = arguments.get("max_request_size", ProducerOptions.defaults()["max_request_size"])
        assert isinstance(size_max, int)
        reader = LineReader(self._descriptor, JSON_SIZE_FACTOR * size_max if self._job.as_json else size_max)
        while not (self._error or reader.at_end or stop.signal):
            with stop.interruptible() as waiting:
                await run_sync(reader.wait, abandon_on_cancel=True)
            if waiting.cancelled_caught:
                break
            try:
                lines = reader.read()
                self._read += len(lines)
                if self._job.as_json:
                    await self._send_json(producer, lines)
                else:
                    await self._send(producer, self._columns(lines, size_max))
            except BadLine as error:
                self._error = f"line {self._sent + 1}: {error}"

    def _columns(self, lines: Sequence[bytes], size_max: int) -> Columns:
        from minikafka.protocol.records.record import RECORD_OVERHEAD_BYTES

        job = self._job
        overhead = RECORD_OVERHEAD_BYTES + sum(10 + 4 * len(name) + len(value) for name, value in job.headers)
        return columns_of(
            lines, self._sent + 1, separator=job.separator, null=job.null, size_max=size_max - overhead
        )

    async def _send_json(self, producer: Producer, lines: Sequence[bytes]) -> None:
        """Send JSON lines up to the first invalid line. Raises BadLine."""
        from minikafka.protocol.errors import MessageTooLargeError

        job = self._job
        places = self._places(producer, len(lines))
        for line, place in zip(lines, places, strict=True):
            record = parse_record(line)
            try:
                delivery = await producer.send(
                    job.topic,
                    record.value,
                    key=record.key,
                    partition=job.partition if record.key is not None else place,
                    timestamp_ms=record.timestamp_ms,
                    headers=(*record.headers, *job.headers),
                )
            except MessageTooLargeError as error:
                raise BadLine(error.message) from None
            self._waiting.append(delivery)
            self._sent += 1
            self._size_bytes += len(record.value or b"") + len(record.key or b"")
        self._settle()
        self._shown.update(self._sent, self._size_bytes)

    async def _send(self, producer: Producer, columns: Columns) -> None:
        values, keys = columns.values, columns.keys
        if self._job.headers:
            await self._send_with_headers(producer, columns)
        elif keys is None:
            for piece, partition in self._pieces(producer, len(values)):
                self._waiting += await producer.send_many(self._job.topic, values[piece], partition=partition)
                self._sent += len(values[piece])
        else:
            topic, partition = self._job.topic, self._job.partition
            self._waiting += await producer.send_many(topic, values, keys=keys, partition=partition)
            self._sent += len(values)
        self._size_bytes += sum(len(value) for value in values if value)
        self._size_bytes += sum(len(key) for key in keys or () if key)
        self._error = self._error or columns.error
        self._settle()
        self._shown.update(self._sent, self._size_bytes)

    async def _send_with_headers(self, producer: Producer, columns: Columns) -> None:
        job, values = self._job, columns.values
        keyed = columns.keys is not None
        keys: Sequence[bytes | None] = columns.keys or [None] * len(values)
        places = [job.partition] * len(values) if keyed else self._places(producer, len(values))
        for value, key, place in zip(values, keys, places, strict=True):
            self._waiting.append(await producer.send(job.topic, value, key=key, partition=place, headers=job.headers))
            self._sent += 1

    def _pieces(self, producer: Producer, count: int) -> Iterator[tuple[slice, int | None]]:
        """The partitions of lines without keys: the partition of the command, or partitions with a leader in turn."""
        topic = producer.cluster.metadata.topics.get(self._job.topic)
        available = [] if topic is None else [one.index for one in topic.partitions if one.leader >= 0]
        if self._job.partition is not None or not available:
            return iter([(slice(0, count), self._job.partition)])
        return self._spread.pieces(count, available)

    def _places(self, producer: Producer, count: int) -> list[int | None]:
        """The partition of each of `count` lines, for lines without a key."""
        places: list[int | None] = []
        for piece, partition in self._pieces(producer, count):
            places += [partition] * len(range(count)[piece])
        return places

    def _settle(self, *, all_of_them: bool = False, fails: bool = True) -> None:
        """Count completed deliveries, from the oldest to the first that is not complete.

        A lock is held, because a forced exit counts in another thread.

        Args:
            all_of_them: whether to count all deliveries, those that are not complete as unknown.
            fails: whether a failed delivery is an error of the command.
        """
        from minikafka.protocol.errors import KafkaError

        waiting = self._waiting
        with self._counting:
            while waiting and (waiting[0].done or all_of_them):  # a million times, at the end
                delivery = waiting.popleft()
                if not delivery.done:
                    self._unknown += 1
                    continue
                try:
                    delivery.result()
                    self._delivered += 1
                except KafkaError as error:
                    self._unknown += error.retriable
                    self._error = self._error or (f"record not delivered: {error}" if fails else "")
