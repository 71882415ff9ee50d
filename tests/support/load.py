"""A producer at work in a thread while its brokers are mistreated."""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from typing import Any

import pytest

TICK_S = 0.01
SETTLE_S = 60


class Load(ABC):
    """At work for as long as its `with` block lasts, which ends when everything is answered."""

    records_a_tick = 6

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def send(self, number: int) -> None:
        """Hands the next record to the producer and notes it."""

    @abstractmethod
    def settle(self) -> None:
        """Waits until everything is answered."""

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        self.settle()

    def _run(self) -> None:
        numbers = itertools.count()
        while not self._stop.wait(TICK_S):
            for number in itertools.islice(numbers, self.records_a_tick):
                self.send(number)


class Librdkafka:
    """confluent-kafka's producer, with acks=all and idempotence, told only what an impatient user would tell it."""

    def __init__(self, bootstrap: str, **options: object) -> None:
        confluent_kafka = pytest.importorskip("confluent_kafka")
        self._producer: Any = confluent_kafka.Producer({
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 1,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
            **options,
        })

    def produce(self, *record: object, **options: object) -> None:
        """As `Producer.produce`; waits while its queue is full, because the brokers are away for long."""
        while True:
            try:
                self._producer.produce(*record, **options)
                break
            except BufferError:
                self._producer.poll(TICK_S)
        self._producer.poll(0)

    def settle(self) -> None:
        """Waits until everything is answered."""
        self._producer.flush(SETTLE_S)
