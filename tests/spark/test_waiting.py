"""The connector never waits for a cluster without a word, and says in one sentence what is missing."""

from __future__ import annotations

import logging
import os
import select
import signal
from collections.abc import Iterator
from itertools import count
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from minikafka.client.connections import waits
from minikafka.protocol.errors import KafkaError, LeaderNotAvailableError, NetworkError, RequestTimedOutError
from minikafka.spark_connector.brokers import offset_reader, sockets, waiting
from minikafka.spark_connector.brokers.offset_reader import OffsetReader
from minikafka.spark_connector.options.source_options import parse
from minikafka.spark_connector.source import partition_reader
from minikafka.spark_connector.source.offset_resolution import find_partitions
from minikafka.spark_connector.source.range_planner import Range

WAIT_S = 20


class Seen(logging.Handler):
    """The lines of the log; `twice` is set with the second one."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.twice = Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if len(self.lines) > 1:
            self.twice.set()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """Patience is short."""
    assert (waiting.PATIENCE_S, waiting.INTERVAL_S) == (waits.PATIENCE_S, waits.INTERVAL_S) == (2, 10)
    for name in ("PATIENCE_S", "INTERVAL_S", "STEP_S"):
        monkeypatch.setattr(waiting, name, 0.01)
    handler, logger = Seen(), logging.getLogger(waiting.__name__)
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def options(address: str) -> Any:
    return parse({"kafka.bootstrap.servers": address, "subscribe": "t"})


@pytest.mark.parametrize("port", [1, 0, -1, 65536, (1 << 31) - 1])
def test_a_cluster_that_is_away_is_named(port: int, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    times = count(0, 20)
    monkeypatch.setattr(sockets, "now_s", lambda: next(times))

    def sleep(seconds: float) -> None:
        assert seen.twice.wait(WAIT_S)

    monkeypatch.setattr(sockets, "sleep", sleep)
    reader = OffsetReader(options("127.0.0.1:1").kafka)
    reader._bootstrap = [("127.0.0.1", port)]
    with pytest.raises(RequestTimedOutError, match="fetching metadata did not succeed within 60 s: cannot connect to"):
        reader.refresh(["t"])
    assert seen.twice.is_set()
    assert any(f"still waiting: fetching metadata: cannot connect to 127.0.0.1:{port}: " in one for one in seen.lines)
    assert port == 1 or any("no port has that number" in one for one in seen.lines)


def test_a_broker_that_does_not_answer_is_not_waited_for_in_silence(seen: Seen) -> None:
    reader = OffsetReader(options("127.0.0.1:1").kafka)
    answers: Iterator[Any] = iter([NetworkError("the broker hung up"), "answer"])

    def attempt() -> Any:
        seen.twice.clear()
        seen.lines.clear()
        assert seen.twice.wait(WAIT_S)
        answer = next(answers)
        if isinstance(answer, NetworkError):
            raise answer
        return answer

    assert reader.retry(attempt, "asking") == "answer"
    assert any("still waiting: asking: the broker hung up" in one for one in seen.lines)


def test_a_wait_within_a_wait_is_said_once_with_the_innermost_reason(seen: Seen) -> None:
    with waiting.waiting("looking up offsets", lambda: "no leader"):
        with waiting.waiting("fetching metadata", lambda: "connection refused"):
            seen.twice.clear()
            seen.lines.clear()
            assert seen.twice.wait(WAIT_S)
            assert {one.rpartition(" (")[0] for one in seen.lines[1:]} == {
                "still waiting: looking up offsets: connection refused"
            }
        seen.twice.clear()
        seen.lines.clear()
        assert seen.twice.wait(WAIT_S)
        assert "still waiting: looking up offsets: no leader" in seen.lines[-1]


def test_nothing_is_said_of_waits_that_have_ended_nor_before_the_patience_ends(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 1e9)
    with waiting.waiting("asking", lambda: ""):
        monkeypatch.setattr(waiting, "PATIENCE_S", 0.01)
        with_patience = Thread(target=wait_for, args=(seen, "looking"))
        with_patience.start()
        with_patience.join()
    wait_for(seen, "fetching")
    assert {line.split(": ")[1] for line in seen.lines} == {"looking", "fetching"}


def wait_for(seen: Seen, what: str) -> None:
    """Wait until it was said twice since."""
    with waiting.waiting(what, lambda: ""):
        seen.twice.clear()
        seen.lines[:] = [line for line in seen.lines if what not in line][-1:]
        assert seen.twice.wait(WAIT_S)


def test_the_thread_ends_when_nobody_has_waited_for_long_and_another_begins(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "IDLE_STEPS_MAX", 3)
    watch = waiting._Watch()
    monkeypatch.setattr(waiting, "_WATCH", watch)
    for _ in range(3):
        with waiting.waiting("asking", lambda: "nobody answers"):
            seen.twice.clear()
            seen.lines.clear()
            assert seen.twice.wait(WAIT_S)
            assert watch._runs
        for thread in enumerate_threads():
            if thread.name == "minikafka waiting" and thread._target == watch._run:
                thread.join(WAIT_S)
        assert not watch._runs


def test_a_process_that_was_forked_has_a_thread_of_its_own(seen: Seen) -> None:
    with waiting.waiting("asking", lambda: "nobody answers"):
        assert seen.twice.wait(WAIT_S)
        receiving, sending = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                seen.twice = Event()  # the parent's may have been locked in the moment of the fork
                seen.lines.clear()
                with waiting.waiting("asking in the child", lambda: "nobody answers"):
                    seen.twice.wait(WAIT_S)
                os.write(sending, "\n".join(seen.lines).encode())
            finally:
                os._exit(0)
        os.close(sending)
        with os.fdopen(receiving) as said:
            if not select.select([receiving], [], [], 2 * WAIT_S)[0]:
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            lines = said.read().splitlines()
    assert lines
    assert all("asking in the child" in line for line in lines)


@pytest.mark.parametrize("error", [NetworkError, RequestTimedOutError])
def test_metadata_that_cannot_be_refreshed_end_no_task_before_its_timeout(
    error: type[KafkaError], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = partition_reader._RangeReader(options("127.0.0.1:1"), Range("t", 3, 5, 9))
    now_s, refreshed = [sockets.now_s()], list[float]()

    def fail(*_: object) -> Any:
        raise NetworkError("the broker hung up")

    def refresh(names: list[str]) -> None:
        refreshed.append(now_s[0])
        raise error("fetching metadata did not succeed within 60 s")

    monkeypatch.setattr(reader, "_receive", fail)
    monkeypatch.setattr(reader._brokers, "refresh", refresh)
    monkeypatch.setattr(sockets, "now_s", lambda: now_s[0])
    monkeypatch.setattr(sockets, "sleep", lambda seconds: now_s.append(now_s.pop() + seconds))
    with pytest.raises(NetworkError, match="Cannot fetch record for offset 5 in 120000 milliseconds"):
        next(reader.batches())
    assert refreshed[-1] - refreshed[0] > 100, "for as long as kafkaConsumer.pollTimeoutMs"


def test_the_fetch_of_a_task_is_not_waited_for_in_silence(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker hangs up, again and again."""
    reader = partition_reader._RangeReader(options("127.0.0.1:1"), Range("t", 3, 5, 9))

    def hang_up() -> Any:
        assert seen.twice.wait(WAIT_S)
        seen.twice.clear()
        seen.lines.clear()
        raise NetworkError("the broker hung up")

    def give_up(seconds: float) -> None:
        assert seen.twice.wait(WAIT_S)
        raise InterruptedError

    monkeypatch.setattr(reader, "_receive", hang_up)
    monkeypatch.setattr(sockets, "sleep", give_up)
    with pytest.raises(InterruptedError):
        next(reader.batches())
    assert any("still waiting: fetching t-3 from offset 5: the broker hung up" in one for one in seen.lines)


@pytest.mark.parametrize(("error", "text"), [
    (None, "topic 't' does not exist: create it, or correct the option 'subscribe'"),
    (LeaderNotAvailableError("topic 't': no leader"), "topic 't': no leader"),
])  # fmt: skip
def test_a_missing_topic_is_named_once(error: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = options("127.0.0.1:1")
    reader = OffsetReader(given.kafka)
    monkeypatch.setattr(offset_reader.OffsetReader, "refresh", lambda self, names: None)
    monkeypatch.setattr(sockets, "sleep", lambda seconds: None)
    if error is not None:
        reader.metadata.errors["t"] = error
    with pytest.raises(Exception, match="topic 't'") as raised:
        find_partitions(reader, given)
    assert raised.value.args[0] == text
