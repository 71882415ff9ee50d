"""A producer that runs in a thread while a test injects faults into its brokers."""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import pytest

TICK_S = 0.01
SETTLE_S = 60


class Load(ABC):
    """Produces during its `with` block, which ends when all records are acknowledged or failed."""

    records_a_tick = 6

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def send(self, number: int) -> None:
        """Produce and record the next record."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until all records are acknowledged or failed."""

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
    """confluent-kafka's producer with acks=all, idempotence and short timeouts, or with its own."""

    QUICK: ClassVar[dict[str, object]] = {"linger.ms": 1, "reconnect.backoff.max.ms": 200}

    def __init__(self, *, quick: bool = True, **options: object) -> None:
        confluent_kafka = pytest.importorskip("confluent_kafka")
        self._producer: Any = confluent_kafka.Producer({
            "enable.idempotence": True,
            "acks": "all",
            "log_level": 0,
            **(self.QUICK if quick else {}),
            **options,
        })

    def produce(self, *record: object, **options: object) -> None:
        """As `Producer.produce`; waits while its queue is full."""
        while True:
            try:
                self._producer.produce(*record, **options)
                break
            except BufferError:
                self._producer.poll(TICK_S)
        self._producer.poll(0)

    def settle(self) -> None:
        """Wait until all records are acknowledged or failed."""
        self._producer.flush(SETTLE_S)
