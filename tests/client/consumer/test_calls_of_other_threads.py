"""Another thread calls a blocking consumer that is being read, at the worst moment: each record is returned once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from minikafka.client import blocking

COUNT = 9


class Interrupted(deque[Any]):
    """Records that were taken, and beside whose next use another thread calls the consumer.

    Attributes:
        consumer: whose `metrics` are called once, as by a thread that runs between two instructions.
    """

    consumer: blocking.Consumer | None = None

    def call(self) -> None:
        if self.consumer is not None and threading.current_thread() is threading.main_thread():
            consumer, self.consumer = self.consumer, None
            consumer.metrics()

    def __bool__(self) -> bool:
        filled = len(self) > 0
        self.call()
        return filled

    def __iter__(self) -> Iterator[Any]:
        items = list(super().__iter__())
        self.call()
        return iter(items)


@pytest.fixture
def consumer(minikafka_bootstrap: str, topic: str) -> Iterator[blocking.Consumer]:
    with blocking.Producer(bootstrap_servers=minikafka_bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(COUNT)])
    with blocking.Consumer(
        topic, bootstrap_servers=minikafka_bootstrap, auto_offset_reset="earliest", stop_at="end"
    ) as consumer:
        yield consumer


def test_an_iteration_goes_on(consumer: blocking.Consumer) -> None:
    found = []
    for record in consumer:
        found.append(record.value)
        if not isinstance(consumer._taken, Interrupted):
            consumer._taken = Interrupted(consumer._taken)
        consumer._taken.consumer = consumer
    assert found == [b"%d" % number for number in range(COUNT)]


def test_a_poll_returns_what_was_not_taken_back(consumer: blocking.Consumer) -> None:
    consumer._taken = Interrupted()
    consumer._taken.consumer = consumer
    found: list[bytes | None] = []
    while not consumer.at_end():
        found += [record.value for record in consumer.poll(1_000)]
    assert found == [b"%d" % number for number in range(COUNT)]
