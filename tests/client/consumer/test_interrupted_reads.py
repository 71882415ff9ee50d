"""Ctrl-C at any moment of a blocking read loses no record: what was taken and not handed over comes again."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import anyio
import pytest
from support.interruptions import Signal

from minikafka.client import TopicPartition, blocking
from minikafka.client.blocking.loop_thread import _Call

VALUES = [b"0", b"1", b"2", b"3"]
READS: dict[str, Callable[[blocking.Consumer], Iterator[Any]]] = {
    "for": iter,
    "batches": lambda consumer: consumer.batches(),
    "arrow_batches": lambda consumer: consumer.arrow_batches(["value"]),
}
POLLS = {"poll": lambda consumer: iter(lambda: consumer.poll(10_000), None)}


def values(item: Any) -> list[bytes]:
    """Those of a record, of a list of records or of a batch."""
    if hasattr(item, "column"):
        return list(item.column("value").to_pylist())
    return [item.value] if hasattr(item, "value") else [one.value for one in item]


@pytest.fixture(params=["end"])
def consumer(request: pytest.FixtureRequest, minikafka_bootstrap: str, topic: str) -> Iterator[blocking.Consumer]:
    """In a group, without automatic commits; each batch of the topic, and each record, is requested on its own.

    The parameter is `stop_at`: reads end instead of waiting for records that are lost.
    """
    with blocking.Producer(minikafka_bootstrap) as producer:
        for value in VALUES:
            producer.send_and_wait(topic, value, partition=0)
    with blocking.Consumer(
        bootstrap_servers=minikafka_bootstrap,
        group_id=topic,
        stop_at=request.param,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=1,
        max_partition_fetch_bytes=1,
    ) as consumer:
        consumer.assign([(topic, 0)])
        yield consumer


def read_all(
    consumer: blocking.Consumer, read: str, interruptible: Callable[[], AbstractContextManager[None]]
) -> list[bytes]:
    """All values of the topic, in a loop that is begun again after each interruption."""
    consumer.seek_to_beginning()
    seen: list[bytes] = []
    items = {**READS, **POLLS}[read](consumer)
    while len(seen) < len(VALUES):
        try:
            with interruptible():
                item = next(items)
        except KeyboardInterrupt:
            items = {**READS, **POLLS}[read](consumer)
            continue
        except StopIteration:
            break
        seen += values(item)
        if not values(item):
            break
    return seen


class InterruptedCalls:
    """Interrupts the n-th call of a client that it waits for, once that has ended in the loop."""

    def __init__(self, consumer: blocking.Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
        self._thread = consumer._open_thread()
        self._call = self._thread.call
        self._patch = monkeypatch
        self.left = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._patch.context() as patch:
            patch.setattr(self._thread, "call", self._interrupted)
            yield

    def _interrupted(self, *args: Any) -> Any:
        result = self._call(*args)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return result


@pytest.mark.parametrize("read", [*READS, *POLLS])
def test_a_read_that_is_interrupted_after_it_has_ended_loses_nothing(
    consumer: blocking.Consumer, topic: str, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes between the end of the call in the loop, and the return of its result."""
    interrupted = InterruptedCalls(consumer, monkeypatch)
    for number in range(1, len(VALUES) + 1):
        interrupted.left = number
        assert read_all(consumer, read, interrupted) == VALUES, number
        assert interrupted.left <= 0


@pytest.mark.parametrize("read", [*READS, *POLLS])
def test_what_an_interrupted_read_took_is_not_committed(
    consumer: blocking.Consumer, topic: str, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer.seek((topic, 0), 1)
    interrupted = InterruptedCalls(consumer, monkeypatch)
    interrupted.left = 1
    with pytest.raises(KeyboardInterrupt), interrupted():
        next({**READS, **POLLS}[read](consumer))
    consumer.commit()
    assert consumer.committed((topic, 0))[TopicPartition(topic, 0)].offset == 1


@pytest.mark.parametrize("later", [*READS, *POLLS])
@pytest.mark.parametrize("first", [*READS, *POLLS])
def test_what_an_interrupted_read_took_comes_with_the_next_read_of_any_kind(
    consumer: blocking.Consumer, first: str, later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = InterruptedCalls(consumer, monkeypatch)
    interrupted.left = 1
    with pytest.raises(KeyboardInterrupt), interrupted():
        next({**READS, **POLLS}[first](consumer))
    assert values(next({**READS, **POLLS}[later](consumer)))[0] == VALUES[0]


@pytest.mark.parametrize("read", READS)
def test_ctrl_c_at_any_moment_of_a_loop_loses_no_record(consumer: blocking.Consumer, read: str) -> None:
    number, came = 0, True
    while came:
        number += 1
        interruption = Signal(number, where=lambda path: path.endswith("/client/blocking/consumer.py"))
        assert read_all(consumer, read, interruption.within) == VALUES, f"interrupted at point {number}"
        came = interruption.came
    assert number > 4 * len(VALUES)


def waits_for_a_result(thread: threading.Thread) -> bool:
    """Whether it is in a call of the loop, and waits."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is _Call.wait.__code__


@pytest.mark.parametrize("consumer", [None], indirect=True)
def test_a_read_that_is_interrupted_while_it_waits_has_ended(
    consumer: blocking.Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the next records, while others are refused."""
    ended = threading.Event()
    poll = consumer._consumer.poll

    async def watched(*args: Any) -> Any:
        while not waits_for_a_result(threading.main_thread()):
            await anyio.sleep(0.001)
        os.kill(os.getpid(), signal.SIGALRM)
        try:
            return await poll(*args)
        finally:
            ended.set()

    consumer.seek_to_end()
    monkeypatch.setattr(consumer._consumer, "poll", watched)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(60_000)
        assert ended.is_set()
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("consumer", [None], indirect=True)
def test_a_read_that_is_interrupted_while_it_is_started_does_not_go_on(
    consumer: blocking.Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take records, and others could not read."""
    thread = consumer._open_thread()
    start = thread.soon

    def interrupted_start(*args: Any) -> Any:
        monkeypatch.undo()
        start(*args)
        raise KeyboardInterrupt

    assert next(iter(consumer)).value == VALUES[0]
    consumer.seek_to_end()
    assert consumer.poll(0) == []
    monkeypatch.setattr(thread, "soon", interrupted_start)
    with pytest.raises(KeyboardInterrupt):
        consumer.poll(60_000)
    assert consumer.poll(10) == []


@pytest.fixture
def ends_late(consumer: blocking.Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll was interrupted, again while that waited for its end, and takes a record when the next call comes."""
    thread, poll, resumed = consumer._open_thread(), consumer._consumer.poll, anyio.Event()
    begin, wait_for = thread._begin, _Call.wait_for

    def begin_next(*args: Any) -> None:
        begin(*args)
        if has_begun.is_set():
            resumed.set()

    has_begun = threading.Event()

    async def late(*args: Any) -> Any:
        has_begun.set()
        with anyio.CancelScope(shield=True):
            await resumed.wait()
            return await poll(*args)

    def wait(self: _Call) -> None:
        monkeypatch.setattr(_Call, "wait", original)
        assert has_begun.wait(10)
        raise KeyboardInterrupt

    def wait_again(self: _Call, timeout_s: float) -> None:
        monkeypatch.setattr(_Call, "wait_for", wait_for)
        raise KeyboardInterrupt

    original = _Call.wait
    monkeypatch.setattr(thread, "_begin", begin_next)
    monkeypatch.setattr(consumer._consumer, "poll", late)
    monkeypatch.setattr(_Call, "wait", wait)
    monkeypatch.setattr(_Call, "wait_for", wait_again)
    with pytest.raises(KeyboardInterrupt):
        consumer.poll(60_000)
    monkeypatch.setattr(consumer._consumer, "poll", poll)


def test_a_seek_holds_after_a_read_that_was_interrupted_twice_and_ends_late(
    consumer: blocking.Consumer, topic: str, ends_late: None
) -> None:
    consumer.seek((topic, 0), 2)
    assert consumer.positions() == {TopicPartition(topic, 0): 2}
    assert values(consumer.poll(10_000)) == [VALUES[2]]


def test_what_a_read_took_that_was_interrupted_twice_and_ends_late_is_not_committed(
    consumer: blocking.Consumer, topic: str, ends_late: None
) -> None:
    consumer.commit()
    assert consumer.committed((topic, 0))[TopicPartition(topic, 0)].offset == 0


def test_what_a_read_took_that_was_interrupted_twice_and_ends_late_comes_again(
    consumer: blocking.Consumer, ends_late: None
) -> None:
    assert values(consumer.poll(10_000)) == [VALUES[0]]
