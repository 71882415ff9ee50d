"""The inbox of a blocking producer is bounded in bytes as well, whatever a record's bytes are in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Never

import pytest

from minikafka.client.blocking import Producer
from minikafka.client.blocking.producer import INBOX_SIZE_BYTES_MAX, INBOX_SIZE_MAX

MIB = 1 << 20
LARGE = bytes(MIB)
EXPECTED = (INBOX_SIZE_BYTES_MAX // MIB, INBOX_SIZE_BYTES_MAX // MIB + 1)
RECORDS = {
    "value": {"value": LARGE},
    "key": {"key": LARGE},
    "headers": {"headers": [("h", LARGE)]},
    "text": {"value": "x" * MIB},
}


class Full(Exception):
    """`send` would wait."""


@contextmanager
def stuck(bootstrap: str, topic: str, **options: Any) -> Iterator[Producer]:
    """A producer whose event loop is held by a partitioner; `send` raises where it would wait for it."""
    holds, goes_on = threading.Event(), threading.Event()

    def partitioner(*_: object) -> int:
        holds.set()
        goes_on.wait()
        return 0

    def full(*_: object) -> Never:
        raise Full

    with Producer(bootstrap, partitioner=partitioner, value_serializer=encoded, **options) as producer:
        waits = producer._wait
        producer.send(topic, b"first")
        holds.wait()
        producer._wait = full  # type: ignore[method-assign]
        try:
            yield producer
        finally:
            producer._wait = waits  # type: ignore[method-assign]
            producer._inbox.clear()
            goes_on.set()


def encoded(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def sent_before_waiting(producer: Producer, topic: str, record: dict[str, Any]) -> int:
    for number in range(2 * INBOX_SIZE_MAX):
        try:
            producer.send(topic, **record)
        except Full:
            return number + 1
    raise AssertionError("it never waits")


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_large_records_are_counted_by_bytes(bootstrap: str, topic: str, record: dict[str, Any]) -> None:
    with stuck(bootstrap, topic) as producer:
        for _ in range(3):
            assert sent_before_waiting(producer, topic, record) in EXPECTED
            producer._inbox.clear()


def test_no_more_is_kept_than_the_memory_of_the_producer(bootstrap: str, topic: str) -> None:
    with stuck(bootstrap, topic, buffer_memory=2 * MIB) as producer:
        assert sent_before_waiting(producer, topic, {"value": LARGE}) <= 3


def test_small_records_are_counted_by_number(bootstrap: str, topic: str) -> None:
    with stuck(bootstrap, topic) as producer:
        assert sent_before_waiting(producer, topic, {"value": b"x" * 100}) == INBOX_SIZE_MAX


def test_nobody_waits_for_an_inbox_that_is_empty(bootstrap: str, topic: str) -> None:
    with stuck(bootstrap, topic) as producer:
        for _ in range(3 * INBOX_SIZE_BYTES_MAX // MIB):
            producer._inbox.clear()
            producer._left_bytes = 0
            producer._wait_for_room()
