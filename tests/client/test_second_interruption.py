"""The first Ctrl-C ends the block of a blocking client, which leaves its group or aborts; the second one ends that."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.fake_network import FakeNetwork
from support.scripted_coordinator import ScriptedCoordinator
from support.transaction_broker import TransactionBroker

from minikafka.client import blocking
from minikafka.client.blocking.loop_thread import LoopThread
from minikafka.client.producer import closing
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.leave_group import LeaveGroupRequest


class Interrupted(Exception):
    """Raised by the signal handler of a program."""


class Quiet(blocking.Listener):
    """Does nothing."""


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """How long the end of the thread was waited for each time; nobody waits in fact."""
    seen: list[float] = []
    join, threads = LoopThread.join, list[LoopThread]()

    def record(thread: LoopThread, timeout_s: float) -> bool:
        seen.append(timeout_s)
        threads.append(thread)
        return join(thread, 0)

    monkeypatch.setattr(LoopThread, "join", record)
    yield seen
    for thread in threads:
        assert join(thread, 60)


@pytest.fixture
def handler() -> Iterator[Callable[[Any], None]]:
    """Sets the handler of a signal."""
    before = signal.getsignal(signal.SIGALRM)
    yield lambda called: signal.signal(signal.SIGALRM, called)
    signal.signal(signal.SIGALRM, before)


def use(consumer: blocking.Consumer, listener: Any, first: Any) -> None:
    """A block that ends with this exception, in which the consumer joins its group."""
    with consumer:
        consumer.subscribe(["t"], listener=listener)
        while not consumer.assignment():
            consumer.poll(10)
        if first is not None:
            raise first


def end_a_transaction(producer: blocking.Producer, first: type[BaseException]) -> None:
    """A transaction that ends with this exception."""
    with producer, producer.transaction():
        producer.send_and_wait("t", b"1")
        raise first


@pytest.mark.slow
@pytest.mark.parametrize(("listener", "first", "second", "waited"), [
    (None, KeyboardInterrupt, KeyboardInterrupt, {0}),
    (Quiet(), KeyboardInterrupt, KeyboardInterrupt, {0}),
    (None, Interrupted, Interrupted, {0}),
    (None, None, KeyboardInterrupt, {6}),
    (None, ValueError, KeyboardInterrupt, {6}),
])  # fmt: skip
def test_the_second_interruption_waits_for_nothing(
    listener: Any,
    first: Any,
    second: type[BaseException],
    waited: set[float],
    waits: list[float],
    handler: Callable[[Any], None],
) -> None:
    coordinator, network = ScriptedCoordinator(), FakeNetwork({"t": [1]})
    main = threading.get_ident()

    def interrupt(number: int, frame: Any) -> None:
        raise second

    def leave(request: Any, version: int) -> None:
        signal.pthread_kill(main, signal.SIGALRM)

    network.broker("a", 1, {**coordinator.handlers(), LeaveGroupRequest: leave})
    handler(interrupt)
    consumer = blocking.Consumer(
        bootstrap_servers="a:1", group_id="g", enable_auto_commit=False, seams=network.seams()
    )
    with pytest.raises(second):
        use(consumer, listener, first)
    assert set(waits) == waited
    with pytest.raises(RuntimeError, match="is closed"):
        consumer.assignment()


@pytest.mark.parametrize(("first", "waited"), [(KeyboardInterrupt, [0]), (ValueError, [])])
def test_the_second_interruption_does_not_wait_until_a_transaction_is_aborted(
    first: type[BaseException],
    waited: list[float],
    waits: list[float],
    handler: Callable[[Any], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, main = TransactionBroker(), threading.get_ident()
    begun = threading.Event()

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    def abort(request: Any, version: int) -> None:
        if not begun.is_set():
            begun.set()
            signal.pthread_kill(main, signal.SIGALRM)

    monkeypatch.setattr(closing, "ABORT_TIMEOUT_S", 0.2)
    broker.network.brokers[0].handlers[EndTxnRequest] = abort
    handler(interrupt)
    seams = broker.network.seams()
    producer = blocking.Producer(bootstrap_servers="a:1", transactional_id="x", linger_ms=0, seams=seams)
    with pytest.raises(KeyboardInterrupt):
        end_a_transaction(producer, first)
    assert begun.is_set()
    assert waits == waited
    with pytest.raises(RuntimeError, match="is closed"):
        producer.flush()
