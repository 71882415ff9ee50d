"""`minikafka perf`: how fast a cluster is, seen from the bundled client.

Latency of `perf produce` is that of a sample, one record of each slice that goes to the producer, from its `send` to
its acknowledgement. With --rate a slice is a hundredth of a second's records, and waits for its time.
"""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.options import CODECS, NameValue, client_arguments, client_options, find_topic
from minikafka.cli.running import Stop, run
from minikafka.cli.statistics import Latencies, rates, total_line, window_line

if TYPE_CHECKING:
    from minikafka.client import KafkaError, Producer, RecordMetadata

WINDOW_S = 5.0
SLICE_RECORDS = 256
SLICES_PER_S = 100
DISTINCT_PAYLOADS = 997
"""How many different values go round, so that compression finds about what it would in real data: not much."""

records_option = click.option(
    "--records", type=click.IntRange(1), default=1_000_000, show_default=True, help="How many."
)
size_option = click.option(
    "--size", type=click.IntRange(0), default=100, show_default=True, help="Bytes in the value of each."
)
acks_choice = click.Choice(["all", "1", "0"])
option_option = click.option(
    "--option", "--property", "options", multiple=True, type=NameValue(), help="Of the client, like linger.ms=50."
)


@click.group()
def perf() -> None:
    """Measure how fast records go in and out.

    Example: minikafka perf produce flights --records 20000
    """


@perf.command()
@client_options
@click.argument("topic")
@records_option
@size_option
@click.option("--rate", type=click.IntRange(1), help="At most so many records a second.")
@click.option("--compression-type", type=click.Choice(CODECS), help="How batches are packed.  [default: none]")
@click.option("--acks", type=acks_choice, help="Who has to have it.  [default: all]")
@option_option
def produce(
    bootstrap_server: str,
    topic: str,
    records: int,
    size: int,
    rate: int | None,
    compression_type: str | None,
    acks: str | None,
    options: tuple[tuple[str, str], ...],
) -> None:
    """Send records as fast as they go, or at a --rate.

    \b
    Examples:
      minikafka perf produce flights --records 20000 --size 1000
      minikafka perf produce flights --records 2000 --rate 5000 --acks 1 --option linger.ms=1
    """
    from minikafka.client.options import ProducerOptions

    arguments = client_arguments(
        ProducerOptions, bootstrap_server, options, compression_type=compression_type, acks=acks
    )

    async def work(stop: Stop) -> None:
        from minikafka.client import Producer

        async with Producer(**arguments) as producer:
            await find_topic(producer, topic, bootstrap_server)
            await Load(producer, topic, payloads(size), rate).run(records, stop)

    run(work)


@perf.command()
@client_options
@click.argument("topic")
@click.option("--records", type=click.IntRange(1), help="End after so many; all that are there if not said.")
@click.option("--timeout-ms", type=click.IntRange(1), default=10_000, show_default=True, help="Wait no longer for one.")
@option_option
def consume(
    bootstrap_server: str, topic: str, records: int | None, timeout_ms: int, options: tuple[tuple[str, str], ...]
) -> None:
    """Read a topic from its beginning as fast as it goes.

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
        await read_all(arguments, topic, bootstrap_server, records, timeout_ms, stop)

    run(work)


@perf.command()
@client_options
@click.argument("topic")
@click.option("--records", type=click.IntRange(1), default=10_000, show_default=True, help="How many.")
@size_option
@click.option("--acks", type=acks_choice, default="1", show_default=True, help="Who has to have it.")
@option_option
def latency(
    bootstrap_server: str, topic: str, records: int, size: int, acks: str, options: tuple[tuple[str, str], ...]
) -> None:
    """Send records one at a time, each after the one before was acknowledged.

    \b
    Examples:
      minikafka perf latency flights --records 300
      minikafka perf latency flights --records 300 --acks all --size 1000
    """
    from minikafka.client.options import ProducerOptions

    arguments = client_arguments(ProducerOptions, bootstrap_server, options, acks=acks, linger_ms=0)

    async def work(stop: Stop) -> None:
        from minikafka.client import Producer

        async with Producer(**arguments) as producer:
            await find_topic(producer, topic, bootstrap_server)
            await one_at_a_time(producer, topic, payloads(size), records, stop)

    run(work)


def payloads(size: int) -> list[bytes]:
    """Values of capital letters, as Kafka's own tool sends; the same in every run."""
    letters = bytes(Random(0).choices(range(65, 91), k=size + DISTINCT_PAYLOADS))
    return [letters[start : start + size] for start in range(DISTINCT_PAYLOADS)]


class Load:
    """Records that are sent, and what is known of them."""

    def __init__(self, producer: Producer, topic: str, values: list[bytes], rate: int | None) -> None:
        self._producer = producer
        self._topic = topic
        self._values = values * (SLICE_RECORDS // len(values) + 2)
        self._distinct = len(values)
        self._rate = rate
        self._slice = SLICE_RECORDS if rate is None else max(1, min(SLICE_RECORDS, rate // SLICES_PER_S))
        self._all, self._window = Latencies(), Latencies()
        self._failure: KafkaError | None = None

    async def run(self, records: int, stop: Stop) -> None:
        """Send so many and print how fast that went. Raises the first KafkaError that a record of the sample met."""
        started = window_started = time.monotonic()
        sent = window_sent = 0
        size = len(self._values[0])
        while sent < records and not stop.signal and self._failure is None:
            count = min(self._slice, records - sent)
            await self._send(sent, count)
            sent += count
            now = time.monotonic()
            if now - window_started >= WINDOW_S:
                fresh = sent - window_sent
                click.echo(window_line(fresh, fresh * size, now - window_started, self._window))
                window_started, window_sent, self._window = now, sent, Latencies()
            await self._throttle(started, sent, stop)
        await self._producer.flush()
        if self._failure is not None:
            raise self._failure
        click.echo(total_line(sent, sent * size, time.monotonic() - started, self._all))

    async def _send(self, number: int, count: int) -> None:
        first = number % self._distinct
        await self._producer.send_many(self._topic, self._values[first : first + count - 1])
        asked = time.monotonic()

        def done(place: RecordMetadata | None, error: KafkaError | None) -> None:
            latency_ms = (time.monotonic() - asked) * 1000
            self._all.add(latency_ms)
            self._window.add(latency_ms)
            self._failure = self._failure or error

        await self._producer.send(self._topic, self._values[first], on_delivery=done)

    async def _throttle(self, started: float, sent: int, stop: Stop) -> None:
        import anyio

        if self._rate is not None:
            with stop.interruptible():
                await anyio.sleep(max(0.0, started + sent / self._rate - time.monotonic()))


async def one_at_a_time(producer: Producer, topic: str, values: list[bytes], records: int, stop: Stop) -> None:
    """Send each record after the one before was acknowledged; print how fast that went."""
    latencies = Latencies()
    await producer.send_and_wait(topic, values[0])  # Connections are made by the first.
    started = time.monotonic()
    for number in range(records):
        if stop.signal:
            break
        asked = time.monotonic()
        await producer.send_and_wait(topic, values[number % len(values)])
        latencies.add((time.monotonic() - asked) * 1000)
    elapsed_s = time.monotonic() - started
    click.echo(total_line(len(latencies), len(latencies) * len(values[0]), elapsed_s, latencies))


async def read_all(
    arguments: dict[str, Any], topic: str, bootstrap_server: str, records: int | None, timeout_ms: int, stop: Stop
) -> None:
    """Read so many records (None: all that are there) and print how fast that went."""
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
    click.echo(f"{count} records read in {latest - started:.2f} s, {rates(count, size_bytes, latest - started)}.")
