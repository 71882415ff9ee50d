"""`minikafka perf`: measures throughput and latency of a cluster with the bundled client.

`perf produce` samples the latency of one record of each slice that is passed to the producer, from the `send` of the
record to its acknowledgement. With --rate a slice has the records of a hundredth of a second, and is sent on time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.arguments.options import (
    CODECS,
    NameValue,
    client_arguments,
    client_options,
    find_topic,
    found_or_created,
)
from minikafka.cli.commands.statistics import Latencies, rates, read, total, total_line, window_line
from minikafka.cli.running import Stop, run
from minikafka.cli.terminal.failures import Failed, failure
from minikafka.cli.terminal.output import echo, json_option, output
from minikafka.protocol.counted import counted

if TYPE_CHECKING:
    from minikafka.client import Delivery, KafkaError, Producer, RecordMetadata

WINDOW_S = 5.0
SLICE_RECORDS = 256
SLICES_PER_S = 100
DISTINCT_PAYLOADS = 997
"""The number of different values, so that batches do not compress better than real data."""
PAYLOADS_BYTES_MAX = 64 << 20

records_option = click.option(
    "--records", type=Whole(1), default=1_000_000, show_default=True, help="Number of records to send."
)
size_option = click.option("--size", type=Whole(0), default=100, show_default=True, help="Size of each value in bytes.")
acks_choice = click.Choice(["all", "1", "0"])
option_option = click.option(
    "--option",
    "--property",
    "options",
    multiple=True,
    type=NameValue(),
    help="Client option, such as linger.ms=50; repeatable.",
)


@click.group()
def perf() -> None:
    """Measure throughput and latency.

    Example: minikafka perf produce flights --records 20000
    """


@perf.command()
@client_options
@click.argument("topic")
@records_option
@size_option
@click.option("--rate", type=Whole(1), help="Highest rate, in records per second.  [default: no limit]")
@click.option("--compression-type", type=click.Choice(CODECS), help="Compression of batches.  [default: none]")
@click.option(
    "--acks", type=acks_choice,
    help="Acknowledgements to wait for: of all in-sync replicas, of the leader (1), or none (0).  [default: all]",
)
@option_option
@json_option
def produce(
    bootstrap_server: str,
    topic: str,
    records: int,
    size: int,
    rate: int | None,
    compression_type: str | None,
    acks: str | None,
    options: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Measure how fast records are sent.

    Sends records as fast as possible, or at --rate. Only acknowledged records count.

    \b
    Examples:
      minikafka perf produce flights --records 20000 --size 1000
      minikafka perf produce flights --records 2000 --rate 5000 --acks 1 --option linger.ms=1
    """
    from minikafka.client.options import ProducerOptions

    arguments = client_arguments(
        ProducerOptions, bootstrap_server, options, compression_type=compression_type, acks=acks
    )
    values = payloads(size, arguments)

    async def work(stop: Stop) -> None:
        from minikafka.client import Producer

        async with Producer(**arguments) as producer:
            await found_or_created(producer, topic, bootstrap_server, quiet=as_json)
            await Load(producer, topic, values, rate, as_json=as_json).run(records, stop)

    run(work)


@perf.command()
@client_options
@click.argument("topic")
@click.option("--records", metavar="N", type=Whole(1), help="Exit after N records.  [default: all existing records]")
@click.option(
    "--timeout-ms",
    type=Whole(1),
    default=10_000,
    show_default=True,
    help="Exit when no record has arrived for this many ms.",
)
@option_option
@json_option
def consume(
    bootstrap_server: str,
    topic: str,
    records: int | None,
    timeout_ms: int,
    options: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Measure how fast a topic is read.

    Reads the topic from the beginning as fast as possible.

    \b
    Examples:
      minikafka perf consume flights
      minikafka perf consume flights --records 1000 --option fetch.max.bytes=1048576
    """
    from minikafka.client.options import ConsumerOptions

    arguments = client_arguments(
        ConsumerOptions, bootstrap_server, options, auto_offset_reset="earliest", allow_auto_create_topics=False
    )

    async def work(stop: Stop) -> None:
        found = await read_all(arguments, topic, bootstrap_server, records, timeout_ms, stop)
        count, _, elapsed_s = found
        line = f"{counted(count, 'record')} read in {elapsed_s:.2f} s, {rates(*found)}."
        output(read(*found), [line], as_json=as_json)

    run(work)


@perf.command()
@client_options
@click.argument("topic")
@click.option("--records", type=Whole(1), default=10_000, show_default=True, help="Number of records to send.")
@size_option
@click.option(
    "--acks", type=acks_choice, default="1", show_default=True,
    help="Acknowledgements to wait for: of all in-sync replicas, of the leader (1), or none (0).",
)
@option_option
@json_option
def latency(
    bootstrap_server: str,
    topic: str,
    records: int,
    size: int,
    acks: str,
    options: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Measure the latency of single records.

    Sends records one at a time, each after the acknowledgement of the previous one.

    \b
    Examples:
      minikafka perf latency flights --records 300
      minikafka perf latency flights --records 300 --acks all --size 1000
    """
    from minikafka.client.options import ProducerOptions

    arguments = client_arguments(ProducerOptions, bootstrap_server, options, acks=acks, linger_ms=0)
    values = payloads(size, arguments)

    async def work(stop: Stop) -> None:
        from minikafka.client import Producer

        async with Producer(**arguments) as producer:
            await found_or_created(producer, topic, bootstrap_server, quiet=as_json)
            await one_at_a_time(producer, topic, values, records, stop, as_json=as_json)

    run(work)


def payloads(size: int, arguments: Mapping[str, Any]) -> list[bytes]:
    """Values of capital letters, as Kafka's producer-perf-test sends, the same in every run; fewer if they are large.

    Raises click.UsageError if they are too large for the producer that has these arguments.
    """
    from minikafka.client.options import ProducerOptions

    size_max = arguments.get("max_request_size", ProducerOptions.defaults()["max_request_size"])
    if isinstance(size_max, int) and size > size_max:
        raise click.UsageError(f"--size {size} is above {size_max}, which --option max.request.size=… raises")
    distinct = max(1, min(DISTINCT_PAYLOADS, PAYLOADS_BYTES_MAX // max(size, 1)))
    letters = bytes(Random(0).choices(range(65, 91), k=size + distinct))
    return [letters[start : start + size] for start in range(distinct)]


class Slices:
    """The values that are sent, in slices.

    Attributes:
        size_bytes: The size of each value.
    """

    def __init__(self, values: list[bytes], rate: int | None) -> None:
        self.size_bytes = len(values[0])
        self._distinct = len(values)
        self._values = values * (SLICE_RECORDS // len(values) + 2)
        self._records = SLICE_RECORDS if rate is None else max(1, min(SLICE_RECORDS, rate // SLICES_PER_S))

    def next(self, sent: int, left: int) -> list[bytes]:
        """The values that follow the first `sent` ones, at most `left`."""
        first = sent % self._distinct
        return self._values[first : first + min(self._records, left)]


class Deliveries:
    """Counts the deliveries of sent records.

    Attributes:
        delivered: How many were delivered, from the oldest to the first whose end is not known.
        failure: The first error.
        waiting: Those whose end is not known.
    """

    def __init__(self) -> None:
        self.delivered = 0
        self.failure: KafkaError | None = None
        self.waiting: deque[Delivery] = deque()

    def settle(self) -> None:
        """Count the deliveries that have ended."""
        from minikafka.protocol.errors import KafkaError

        while self.waiting and self.waiting[0].done:
            try:
                self.waiting.popleft().result()
                self.delivered += 1
            except KafkaError as error:
                self.failure = self.failure or error


class Load:
    """Sends records, and measures the rate of deliveries and their latency."""

    def __init__(self, producer: Producer, topic: str, values: list[bytes], rate: int | None, *, as_json: bool) -> None:
        self._as_json = as_json
        self._producer = producer
        self._topic = topic
        self._rate = rate
        self._slices = Slices(values, rate)
        self._deliveries = Deliveries()
        self._all, self._window = Latencies(), Latencies()
        self._sent = 0
        self._started = time.monotonic()
        self._is_reported = False

    async def run(self, records: int, stop: Stop) -> None:
        """Send records until one fails, and print statistics. Raises click.ClickException if some are not delivered."""
        deliveries = self._deliveries
        stop.doing = lambda: f"delivering {counted(len(deliveries.waiting), 'record')}"
        stop.last_words = self._report
        try:
            await self._send_all(records, stop)
            await self._producer.flush()
        finally:
            self._report()
        if deliveries.failure is not None:
            of_all = f"{self._sent - deliveries.delivered:,} of {counted(self._sent, 'record')} not delivered"
            raise Failed([failure(deliveries.failure, f"{of_all}: {deliveries.failure}")])

    async def _send_all(self, records: int, stop: Stop) -> None:
        window_started, before, deliveries = self._started, 0, self._deliveries
        while self._sent < records and not stop.signal and deliveries.failure is None:
            await self._send(self._slices.next(self._sent, records - self._sent))
            deliveries.settle()
            now = time.monotonic()
            if now - window_started >= WINDOW_S:
                count = deliveries.delivered - before
                size_bytes = count * self._slices.size_bytes
                if not self._as_json:
                    echo(window_line(count, size_bytes, now - window_started, self._window))
                window_started, before, self._window = now, deliveries.delivered, Latencies()
            await self._throttle(stop)

    async def _send(self, values: list[bytes]) -> None:
        waiting, last = self._deliveries.waiting, values.pop()
        waiting += await self._producer.send_many(self._topic, values)
        self._sent += len(values)
        sent_at = time.monotonic()

        def done(_metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            if error is None:
                latency_ms = (time.monotonic() - sent_at) * 1000
                self._all.add(latency_ms)
                self._window.add(latency_ms)

        waiting.append(await self._producer.send(self._topic, last, on_delivery=done))
        self._sent += 1

    def _report(self) -> None:
        """Print the statistics, once."""
        if self._is_reported or not self._sent:
            return
        self._is_reported = True
        self._deliveries.settle()
        delivered = self._deliveries.delivered
        shown = delivered, delivered * self._slices.size_bytes, time.monotonic() - self._started, self._all
        missing = self._sent - delivered
        lines = [total_line(*shown), *([f"{counted(missing, 'record')} not delivered."] if missing else [])]
        output({**total(*shown), "not_delivered": missing}, lines, as_json=self._as_json)

    async def _throttle(self, stop: Stop) -> None:
        import anyio

        if self._rate is not None:
            with stop.interruptible():
                await anyio.sleep(max(0.0, self._started + self._sent / self._rate - time.monotonic()))


async def one_at_a_time(
    producer: Producer, topic: str, values: list[bytes], records: int, stop: Stop, *, as_json: bool
) -> None:
    """Send each record after the acknowledgement of the previous one, and print statistics."""
    latencies = Latencies()
    await producer.send_and_wait(topic, values[0])  # The first record opens the connections.
    started = time.monotonic()
    for number in range(records):
        if stop.signal:
            break
        sent_at = time.monotonic()
        with stop.interruptible():
            await producer.send_and_wait(topic, values[number % len(values)])
            latencies.add((time.monotonic() - sent_at) * 1000)
    shown = len(latencies), len(latencies) * len(values[0]), time.monotonic() - started, latencies
    output(total(*shown), [total_line(*shown)], as_json=as_json)


async def read_all(
    arguments: dict[str, Any], topic: str, bootstrap_server: str, records: int | None, timeout_ms: int, stop: Stop
) -> tuple[int, int, float]:
    """Read a number of records (None: all existing records); return their number, their bytes, and the seconds."""
    import anyio

    from minikafka.client import Consumer, TopicPartition

    count = size_bytes = 0
    async with Consumer(**arguments) as consumer:
        partitions = [TopicPartition(topic, one) for one in range(await find_topic(consumer, topic, bootstrap_server))]
        first, end = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
        left = {tp for tp in partitions if end[tp] > first[tp]}
        started = latest = time.monotonic()
        consumer.assign(partitions)
        batches = consumer.batches()
        while (left if records is None else count < records) and not stop.signal:
            batch = None
            with stop.interruptible(), anyio.move_on_after(timeout_ms / 1000):
                batch = await anext(batches)
            if batch is None:
                break
            count += len(batch)
            size_bytes += sum(len(one.value or b"") + len(one.key or b"") for one in batch.records)
            tp = TopicPartition(batch.topic, batch.partition)
            if batch.records[-1].offset + 1 >= end[tp]:
                left.discard(tp)
            latest = time.monotonic()
    return count, size_bytes, latest - started
