"""Programs that produce: idempotent producers, short-lived ones, and weaker settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import trio

from chaos.history import Event, Outcome, Produce
from chaos.workload.process import ClientProcess, live_on
from chaos.workload.values import KEY_COUNT, NAME_HEADER, name_of, value_bytes
from minikafka.client import Delivery, Producer, RecordMetadata
from minikafka.client.producer.partitioner import partition_for_key
from minikafka.protocol.errors import (
    KafkaError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.names import TopicPartition

BIG_BYTES = 20_000
TOO_LARGE_BYTES = 1_200_000
"""More than the default of max.message.bytes."""
TOMBSTONE_SHARE = 0.2
"""Of the small records of a compacted topic."""
UNANSWERED_MAX = 40
"""A producer that has as many records without an answer waits for them."""


class RecordingProducer:
    """A producer whose records are in the history. One task may send.

    Args:
        topics: The name in the history of topics that have another one there.

    Attributes:
        trusted: Whether an acknowledgement concerns the topic that the history means. If not, the outcome is unknown.
    """

    def __init__(
        self, process: ClientProcess, program: str, topics: dict[str, str] | None = None, **options: Any
    ) -> None:
        self.process = process
        self.program = program
        self.name = process.client_name()
        acks = options.get("acks", "all")
        self._acks_all = acks == "all"
        self._idempotent = self._acks_all and options.get("enable_idempotence", True)
        self._once = options.get("retries") == 0
        self._topics = topics or {}
        self._sending: dict[str, Event | None] = {}
        self._value = ""
        self._sent = 0
        self._next_partition: int | None = None
        self._delivered_twice: list[str] = []
        self.trusted: Callable[[], bool] = lambda: True
        self.producer: Producer = process.producer(**options, partitioner=self._choose)

    @property
    def unanswered(self) -> int:
        """The number of records without an outcome."""
        return len(self._sending)

    def check(self) -> None:
        """Check that every record was delivered or failed once. To be called when the producer is closed."""
        assert not self._delivered_twice, f"{self._delivered_twice} were delivered twice"
        assert not self._sending or self.process.ended, f"{list(self._sending)} were never delivered, nor did they fail"

    async def send_to(self, tp: TopicPartition) -> Delivery:
        """Send a small record to a partition. Raises KafkaError if it could not be queued."""
        self._next_partition = tp.partition
        try:
            return await self.send(tp.topic)
        finally:
            self._next_partition = None

    async def send(self, topic: str, *, key: str | None = None, size_bytes: int = 0) -> Delivery:
        """Send a record, which may be a tombstone. Raises KafkaError if it could not be queued."""
        compacted = topic in self.process.plan.compacted
        if key is None and compacted:
            key = f"key-{self.process.random.randrange(KEY_COUNT)}"
        tombstone = compacted and not size_bytes and self.process.chance(TOMBSTONE_SHARE)
        self._sent += 1
        self._value = value = name_of(self.name, self._sent, size_bytes)
        return await self.producer.send(
            topic,
            None if tombstone else value_bytes(value),
            key=None if key is None else key.encode(),
            headers=[(NAME_HEADER, value.encode())] if tombstone else (),
            on_delivery=lambda metadata, error: self._delivered(value, metadata, error),
        )

    def _choose(self, topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        """The partition of the record that is being queued, which is recorded now, before it can be sent."""
        partition = self._next_partition
        if partition is None:
            partition = self.process.random.randrange(count) if key is None else partition_for_key(key, count)
        if partition >= count:
            raise UnknownTopicOrPartitionError(f"{topic} has {count} partitions in old metadata, and not {partition}")
        action = Produce(
            TopicPartition(self._topics.get(topic, topic), partition),
            None if key is None else key.decode(),
            self._value,
            acks_all=self._acks_all,
            idempotent=self._idempotent,
            tombstone=value is None,
        )
        self._sending[self._value] = self.process.invoke(self.name, action)
        return partition

    def _delivered(self, value: str, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        if value not in self._sending:  # an exception would be logged by the producer and have no effect
            self._delivered_twice.append(value)
            return
        invocation = self._sending.pop(value)
        if metadata is not None and self.trusted():
            self._acknowledged(invocation, metadata.offset)
            return
        self.process.complete(invocation, self._outcome(error), error=error)
        self.process.count(self.program, "record", error)

    def _acknowledged(self, invocation: Event | None, offset: int) -> None:
        if invocation is not None and isinstance(invocation.action, Produce):
            sent = invocation.action
            acknowledged = replace(sent, offset=offset if offset >= 0 else None)
            self.process.complete(invocation, Outcome.OK, acknowledged)
            if sent.tombstone:
                self.process.count(self.program, "tombstone")
        self.process.count(self.program, "record")

    def _outcome(self, error: KafkaError | None) -> Outcome:
        """A record that is too large is never appended. Other errors may hide an earlier attempt that succeeded."""
        certain = isinstance(error, MessageTooLargeError) or (self._once and isinstance(error, NotEnoughReplicasError))
        return Outcome.FAIL if certain else Outcome.UNKNOWN


async def idempotent_producer(process: ClientProcess) -> None:
    """acks=all and idempotence, with batches, compression and big records; lives long."""
    await live_on(process, "idempotent producer", lambda _: _produce(process, "idempotent producer", bursts=60))


async def short_lived_producer(process: ClientProcess) -> None:
    """As the idempotent producer, with a new producer id after a few records."""
    await live_on(process, "short-lived producer", lambda _: _produce(process, "short-lived producer", bursts=4))


async def weak_producer(process: ClientProcess) -> None:
    """acks=1, acks=0, or acks=all without idempotence, with and without retries."""

    async def life(_: ClientProcess) -> None:
        settings: Sequence[dict[str, Any]] = (
            {"acks": 1},
            {"acks": 0},
            {"enable_idempotence": False},
            {"retries": 0, "enable_idempotence": False},
        )
        await _produce(process, "weak producer", bursts=12, **process.random.choice(settings))

    await live_on(process, "weak producer", life)


async def _produce(process: ClientProcess, program: str, *, bursts: int, **options: Any) -> None:
    """The life of one producer, which ends with a flush, or by cancellation."""
    random = process.random
    sending = RecordingProducer(process, program, **_random_options(random), **options)
    topics = list(process.plan.topics)
    with trio.CancelScope() as scope:
        async with sending.producer:
            for _ in range(random.randint(1, 2 * bursts)):
                await _send_burst(sending, topics)
                await process.rest(1.5)
            if process.chance(0.1):
                scope.cancel()
                await trio.lowlevel.checkpoint()
    sending.check()
    process.count(program, "abandoned" if scope.cancelled_caught else "closed")


async def _send_burst(sending: RecordingProducer, topics: Sequence[str]) -> None:
    """Send some records to one topic or several. Most records share a request: requests are what a run costs."""
    random = sending.process.random
    chosen = random.choice((topics, [random.choice(topics)]))
    for _ in range(random.choice((1, 1, 4, 8, 12, 16))):
        key = f"key-{random.randrange(KEY_COUNT)}" if random.random() < 0.7 else None
        await sending.send(_topic(random, chosen, sending), key=key, size_bytes=_size(random))
    if sending.unanswered >= UNANSWERED_MAX or random.random() < 0.05:
        await sending.producer.flush()


def _topic(random: Random, topics: Sequence[str], sending: RecordingProducer) -> str:
    brief = list(sending.process.plan.brief)
    return random.choice(brief) if brief and random.random() < 0.03 else random.choice(topics)


def _size(random: Random) -> int:
    chosen = random.random()
    return TOO_LARGE_BYTES if chosen < 0.002 else random.randint(200, BIG_BYTES) if chosen < 0.05 else 0


def _random_options(random: Random) -> dict[str, Any]:
    return {
        "linger_ms": random.choice((0, 5, 50)),
        "batch_size": random.choice((200, 16_384, 262_144)),
        "compression_type": random.choice(("none", "none", "gzip", "snappy", "lz4", "zstd")),
        "max_in_flight_requests_per_connection": random.choice((1, 5)),
        "max_request_size": 2 * TOO_LARGE_BYTES,
    }
