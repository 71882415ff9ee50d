"""Signal handlers that raise, or use the client themselves, at any moment of a call of a blocking client.

Whatever the handler does, nothing waits for ever, and later calls work, also those of other threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from support.interruptions import Signal

from minikafka.client import TopicPartition
from minikafka.client.blocking import Consumer, Producer, blocking_client

LIMIT_MS = 20_000
POINTS_MIN = 20
pytestmark = pytest.mark.timeout(120)


class Interrupted(Exception):
    """Raised by a signal handler, as for a time-out of the application's own."""


def interrupt() -> None:
    raise Interrupted


def in_client(path: str) -> bool:
    return "/client/blocking/" in path or path.endswith("contextlib.py")


def at_each_moment(
    call: Callable[[], object], handler: Callable[[], object], where: Callable[[str], bool] = lambda path: True
) -> Iterator[int]:
    """Make the call with a signal at its first point, the next time at its second one, and so on to its last one."""
    number, came = 0, True
    while came:
        number += 1
        signal = Signal(number, handler, where)
        with suppress(Interrupted), signal.within():
            call()
        yield number
        came = signal.came
    assert number > POINTS_MIN


@contextmanager
def producing(bootstrap: str, topic: str) -> Iterator[Producer]:
    with Producer(bootstrap, linger_ms=0) as producer:
        producer.send_and_wait(topic, b"first", partition=0)
        yield producer


def numbers(bootstrap: str, topic: str) -> list[int]:
    """The records that are numbers, of transactions that were committed, in order."""
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "stop_at": "end"}
    with Consumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
        return [int(one.value) for one in consumer if one.value.isdigit()]


SENDS: dict[str, Callable[[Producer, str], object]] = {
    "send": lambda producer, topic: producer.send(topic, b"x", partition=0),
    "send_and_wait": lambda producer, topic: producer.send_and_wait(topic, b"x", partition=0),
    "send_many": lambda producer, topic: producer.send_many(topic, [b"x"], partition=0),
    "flush": lambda producer, topic: producer.flush(),
    "metrics": lambda producer, topic: producer.metrics(),
}
SENDING_HANDLERS: dict[str, Callable[[Producer, str], Callable[[], object]]] = {
    "raises": lambda producer, topic: interrupt,
    "sends": lambda producer, topic: lambda: producer.send(topic, b"x", partition=0),
    "sends and waits": lambda producer, topic: lambda: producer.send(topic, b"x", partition=0).result(LIMIT_MS),
    "flushes": lambda producer, topic: producer.flush,
}


@pytest.mark.parametrize("handler", SENDING_HANDLERS)
@pytest.mark.parametrize("call", SENDS)
def test_a_producer_sends_on(minikafka_bootstrap: str, topic: str, call: str, handler: str) -> None:
    later: list[int] = []
    with producing(minikafka_bootstrap, topic) as producer:
        handled = SENDING_HANDLERS[handler](producer, topic)
        for number in at_each_moment(lambda: SENDS[call](producer, topic), handled):
            delivery = producer.send(topic, b"%d" % number, partition=0)
            later.append(delivery.result(LIMIT_MS).offset)
    assert later == sorted(set(later))
    assert numbers(minikafka_bootstrap, topic) == list(range(1, len(later) + 1))


def test_records_that_were_queued_before_an_interruption_are_sent(minikafka_bootstrap: str, topic: str) -> None:
    """Only `send` is called after it."""
    with producing(minikafka_bootstrap, topic) as producer:
        for _ in at_each_moment(lambda: producer.send(topic, b"x", partition=0), interrupt):
            delivered = threading.Event()
            producer.send(topic, b"y", partition=0, on_delivery=lambda *_: delivered.set())  # noqa: B023
            assert delivered.wait(LIMIT_MS / 1000)


READS: dict[str, Callable[[Consumer, TopicPartition], object]] = {
    "poll": lambda consumer, tp: consumer.poll(0),
    "next": lambda consumer, tp: (consumer.seek(tp, 0), next(iter(consumer))),
    "batch": lambda consumer, tp: (consumer.seek(tp, 0), next(consumer.batches())),
    "commit": lambda consumer, tp: consumer.commit({tp: 1}),
    "position": lambda consumer, tp: consumer.position(tp),
}


def polls(consumer: Consumer, tp: TopicPartition) -> None:
    """It is refused while the same consumer is polled. What it takes is returned."""
    with suppress(RuntimeError):
        consumer.poll(0)
    consumer.seek(tp, 0)


READING_HANDLERS: dict[str, Callable[[Consumer, TopicPartition], Callable[[], object]]] = {
    "raises": lambda consumer, tp: interrupt,
    "polls": lambda consumer, tp: partial(polls, consumer, tp),
    "commits": lambda consumer, tp: consumer.commit,
    "looks": lambda consumer, tp: consumer.assignment,
}


@contextmanager
def reading(bootstrap: str, tp: TopicPartition) -> Iterator[Consumer]:
    options: dict[str, Any] = {"enable_auto_commit": False, "fetch_max_wait_ms": 1}
    with Consumer(bootstrap_servers=bootstrap, group_id=tp.topic, **options) as consumer:
        consumer.assign([tp])
        yield consumer


@pytest.mark.slow
@pytest.mark.parametrize("handler", READING_HANDLERS)
@pytest.mark.parametrize("call", READS)
def test_a_consumer_reads_on(minikafka_bootstrap: str, topic: str, call: str, handler: str) -> None:
    tp = TopicPartition(topic, 0)
    with (
        producing(minikafka_bootstrap, topic),
        ThreadPoolExecutor(1) as other,
        reading(minikafka_bootstrap, tp) as consumer,
    ):
        handled = READING_HANDLERS[handler](consumer, tp)
        for number in at_each_moment(lambda: READS[call](consumer, tp), handled):
            other.submit(consumer.seek, tp, 0).result()
            assert [one.value for one in other.submit(consumer.poll, LIMIT_MS).result()] == [b"first"], number
            assert consumer.poll() == []
            consumer.commit({tp: number})
            assert consumer.committed(tp)[tp].offset == number


@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "close"])
def test_a_client_that_is_interrupted_as_it_opens_or_closes_leaves_no_thread(
    minikafka_bootstrap: str, is_closed: bool
) -> None:
    """A client whose `__exit__` has not begun is left at the end of the program."""
    number, came = 0, True
    while came:
        number += 1
        producer, signal = Producer(minikafka_bootstrap), Signal(number, interrupt, in_client)
        with suppress(Interrupted):
            if is_closed:
                producer.__enter__()
            with signal.within():
                producer.__exit__(None, None, None) if is_closed else producer.__enter__()
        if (came := signal.came) and producer not in blocking_client._open_clients:
            assert producer._thread is None or producer._thread.join(LIMIT_MS / 1000)
        with suppress(RuntimeError):  # It was closed, and its last line was interrupted.
            producer.__exit__(None, None, None)
    assert number > POINTS_MIN / 4


def test_a_transaction_that_is_interrupted_is_followed_by_others(minikafka_bootstrap: str, topic: str) -> None:
    def send(value: bytes) -> None:
        with producer.transaction():
            producer.send(topic, value, partition=0)

    with Producer(minikafka_bootstrap, transactional_id=topic, linger_ms=0) as producer:
        for number in at_each_moment(lambda: send(b"x"), interrupt, in_client):
            send(b"%d" % number)
    assert numbers(minikafka_bootstrap, topic) == list(range(1, number + 1))


def test_a_call_that_was_interrupted_twice_is_cancelled_by_the_next_one(
    minikafka_bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second signal comes before the first one's has cancelled it. It would take records that others wait for."""
    with producing(minikafka_bootstrap, topic), reading(minikafka_bootstrap, TopicPartition(topic, 0)) as consumer:
        consumer.seek_to_end()
        thread = consumer._open_thread()
        begin, calls = thread.soon, list[Any]()

        def interrupted(*args: Any) -> None:
            if not calls:
                begin(*args)
            calls.append(args)
            raise Interrupted

        with monkeypatch.context() as patch:
            patch.setattr(thread, "soon", interrupted)
            with pytest.raises(Interrupted):
                consumer.poll(LIMIT_MS)
        assert len(calls) == 2
        assert consumer.poll(0) == []
        assert thread._calls == {}
