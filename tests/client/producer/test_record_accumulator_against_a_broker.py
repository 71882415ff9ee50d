"""Random runs against a model of the broker's sequence checks: no record is lost, duplicated or out of order.

The model broker loses requests and answers, has bouts of refusing, forgets producers, and keeps, like Kafka's, five
batches per producer to know duplicates by. In other runs requests also arrive late, after their connection was lost,
while records expire: those that did not arrive were reported, and the rest is there once and in order.
"""

from __future__ import annotations

from copy import copy
from random import Random
from typing import Any

import pytest

from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.options import ProducerOptions, make
from minikafka.client.producer.producer_batch import PendingBatch
from minikafka.client.producer.record_accumulator import Accumulator, ProducerIdentity
from minikafka.protocol.errors import (
    KafkaError,
    MessageTooLargeError,
    NetworkError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceNumberError,
)

RUNS = 400
IN_FLIGHT_MAX = 5


class ModelBroker:
    """One partition's log, with its state of one producer."""

    def __init__(self, random: Random) -> None:
        self.log: list[bytes] = []
        self.recent: list[tuple[int, int, int, int]] = []
        self.epoch = -1
        self.next_sequence = 0
        self.random = random
        self.count_max = random.choice((2, 5, 100))

    def append(self, batch: PendingBatch) -> int | KafkaError:
        if self.random.random() < 0.05:
            return NotLeaderOrFollowerError()
        if len(batch.values) > self.count_max:
            return MessageTooLargeError()
        count = len(batch.values)
        for epoch, sequence, size, offset in self.recent:
            if (epoch, sequence, size) == (batch.producer_epoch, batch.base_sequence, count):
                return offset
        if self.epoch < 0:
            self.next_sequence = batch.base_sequence  # Kafka accepts any sequence from an unknown producer.
            self.epoch = batch.producer_epoch
        if batch.producer_epoch > self.epoch:
            self.epoch, self.next_sequence, self.recent = batch.producer_epoch, 0, []
        if batch.producer_epoch < self.epoch or batch.base_sequence != self.next_sequence:
            return OutOfOrderSequenceNumberError()
        offset = len(self.log)
        self.log += [value or b"" for value in batch.values]
        self.next_sequence += count
        self.recent = [*self.recent, (batch.producer_epoch, batch.base_sequence, count, offset)][-5:]
        return offset


class Run:
    """A producer's accumulator on a connection that responds in order, sometimes breaks, and loses data in flight."""

    def __init__(self, seed: int, **others: Any) -> None:
        self.random = Random(seed)
        options: dict[str, Any] = {"linger_ms": 5, "batch_size": self.random.choice((0, 100, 400)), **others}
        self.accumulator = Accumulator(make(ProducerOptions, options, "Producer"), Backoff(10, 100, self.random))
        self.accumulator.identity = ProducerIdentity(1, 0)
        self.broker = ModelBroker(self.random)
        self.wire: list[tuple[PendingBatch, int | KafkaError]] = []
        self.now = 0.0
        self.sent: list[bytes] = []
        self.batches: dict[PendingBatch, list[bytes]] = {}
        """The values of each batch, which forgets them when it is done."""

    def produce(self, count: int) -> None:
        for _ in range(count):
            value = b"%d" % len(self.sent)
            batch = self.accumulator.batch_for(self.accumulator.lane("t", 0), 21 + len(value), self.now)
            batch.keys.append(None)
            batch.values.append(value)
            batch.timestamps.append(0)
            self.sent.append(value)
            self.batches.setdefault(batch, []).append(value)

    def send(self) -> None:
        requests = self.accumulator.collect(
            self.now, lambda topic, partition: 1, lambda node_id: len(self.wire) < IN_FLIGHT_MAX
        )
        for batch in requests.get(1, []):
            batch.encode(0, None)  # type: ignore[arg-type]
            self.wire.append((batch, self.broker.append(batch)))

    def answer(self) -> None:
        if self.random.random() < 0.1:
            self.break_connection()
        elif self.wire:
            batch, answer = self.wire.pop(0)
            if isinstance(answer, KafkaError):
                self.accumulator.failed(batch, answer, self.now)
            else:
                self.accumulator.succeeded(batch, answer)

    def break_connection(self) -> None:
        """Lose the responses in flight; their requests have been executed."""
        for batch, _ in self.wire:
            self.accumulator.failed(batch, NetworkError(), self.now)
        self.wire.clear()

    def step(self) -> None:
        self.now += self.random.choice((0.0, 0.001, 0.01, 0.2))
        self.random.choice((self.send, self.send, self.answer, lambda: self.produce(self.random.randrange(4))))()

    def settle(self) -> None:
        for _ in range(5000):
            if not list(self.accumulator.unfinished()):
                return
            self.now += 0.05
            self.send()
            self.answer()
        raise AssertionError("it never came to rest")


class LateRun(Run):
    """Requests are executed when they are answered; those of a connection that broke arrive later, or never."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, request_timeout_ms=500, delivery_timeout_ms=1000)
        self.requests: list[PendingBatch] = []
        self.late: list[list[PendingBatch]] = []

    def send(self) -> None:
        self.accumulator.expire(self.now)
        requests = self.accumulator.collect(
            self.now, lambda topic, partition: 1, lambda node_id: len(self.wire) < IN_FLIGHT_MAX
        )
        for batch in requests.get(1, []):
            self.wire.append((batch, -1))
            self.requests.append(copy(batch))

    def answer(self) -> None:
        if self.late and self.random.random() < 0.5:
            connection = self.random.choice(self.late)
            self.broker.append(connection.pop(0))
            self.late = [one for one in self.late if one]
            return
        if self.wire:
            self.wire[0] = self.wire[0][0], self.broker.append(self.requests.pop(0))
        super().answer()

    def break_connection(self) -> None:
        super().break_connection()
        if self.requests and self.random.random() < 0.8:
            self.late.append(self.requests)
        self.requests = []


@pytest.mark.parametrize("block", range(4))
def test_records_whose_requests_arrive_late_are_there_once_and_in_order(block: int) -> None:
    expired = 0
    for seed in range(block * RUNS // 4, (block + 1) * RUNS // 4):
        run = LateRun(seed)
        for _ in range(150):
            run.step()
        run.settle()
        values = [int(value) for value in run.broker.log]
        assert values == sorted(set(values)), f"seed {seed}"
        assert run.accumulator.used_bytes == 0
        for batch, sent in run.batches.items():
            expired += batch.error is not None
            if batch.error is None:
                offset = batch.metadata(0).offset
                assert run.broker.log[offset : offset + len(sent)] == sent
    assert expired > RUNS // 4


@pytest.mark.parametrize("block", range(4))
def test_every_record_arrives_once_and_in_order(block: int) -> None:
    for seed in range(block * RUNS // 4, (block + 1) * RUNS // 4):
        run = Run(seed)
        for _ in range(150):
            run.step()
        run.settle()
        assert run.broker.log == run.sent, f"seed {seed}"
        assert run.accumulator.used_bytes == 0
        offsets = [batch.metadata(index).offset for batch, sent in run.batches.items() for index in range(len(sent))]
        assert offsets == list(range(len(run.sent))), f"seed {seed}"
