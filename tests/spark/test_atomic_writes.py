"""`delivery` atomic: readers see all rows of a micro-batch or none, whatever fails, is repeated or overtaken."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.node import NodeProcess, ServerProcess
from support.spark_brokers import create
from support.spark_sink import Breaking, numbers, options, read_committed, rows

from minikafka.protocol.errors import ConcurrentTransactionsError, KafkaError
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from minikafka.spark_connector.brokers import sockets
from minikafka.spark_connector.brokers.offset_reader import offset_reader_for
from minikafka.spark_connector.options.sink_options import SinkOptions
from minikafka.spark_connector.sink.atomic_writes import Encoded, TooLarge, encode_for_driver, write_together
from minikafka.spark_connector.sink.driver_commits import commit_once
from minikafka.spark_connector.sink.earlier_attempts import DRIVER, Write
from minikafka.spark_connector.sink.replay_check import Marker, NotRepeated
from minikafka.spark_connector.sink.sink_tasks import write_once
from minikafka.spark_connector.sink.task_transaction import Transaction

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
ROWS = 24


def prepare(server: ServerProcess, name: str, **more: str) -> SinkOptions:
    create(server.bootstrap, {name: 3})
    return options(server, name, delivery="atomic", **more)


def encode(chosen: SinkOptions, write: Write, count: int, first: int = 0) -> list[Encoded]:
    """What so many tasks pass to the driver."""
    ranges = [range(first + task, first + ROWS, count) for task in range(count)]
    return [encode_for_driver(chosen, write, task, rows(some)) for task, some in enumerate(ranges)]


def found(server: ServerProcess, name: str) -> list[int]:
    return numbers(read_committed(server.bootstrap, name))


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_all_rows_become_visible_when_the_driver_commits(server: ServerProcess, codec: str) -> None:
    name = f"together-{codec}"
    chosen = prepare(server, name, **{"kafka.compression.type": codec, "kafka.batch.size": "200"})
    keys = [b"%d" % number for number in range(500)]
    results = [
        encode_for_driver(chosen, Write(name, 0), task, rows(range(task * 500, task * 500 + 500), key=keys))
        for task in range(3)
    ]
    assert found(server, name) == []
    assert write_together(chosen, results)
    records = read_committed(server.bootstrap, name)
    assert numbers(records) == list(range(1500))
    for partition in range(3):
        values = [int(one.value or b"") for one in records if one.partition == partition]
        assert values == sorted(values), "the order of tasks, and of rows within them"


def test_a_repeated_version_is_not_written_again_whatever_its_tasks_are(server: ServerProcess) -> None:
    chosen = prepare(server, "atomic-repeated")
    assert write_together(chosen, encode(chosen, Write("atomic-repeated", 3, "before"), 4))
    assert not write_together(chosen, encode(chosen, Write("atomic-repeated", 3, "after"), 2))
    assert not write_together(chosen, encode(chosen, Write("atomic-repeated", 2, "zombie"), 2))
    assert write_together(chosen, encode(chosen, Write("atomic-repeated", 4, "after"), 2, ROWS))
    assert not write_together(chosen, [])
    assert not write_together(chosen, [encode_for_driver(chosen, Write("atomic-repeated", 5), 0, rows())])
    assert found(server, "atomic-repeated") == list(range(2 * ROWS))


def test_a_stream_with_an_older_checkpoint_or_another_topic_is_refused(node: NodeProcess) -> None:
    chosen, other = prepare(node, "atomic-restored"), prepare(node, "atomic-elsewhere")
    assert write_together(chosen, encode(chosen, Write("atomic-restored", 3, "before", in_order=True), 2))
    with pytest.raises(NotRepeated, match="has committed micro-batch 3, and is to write micro-batch 2 now: its"):
        write_together(chosen, encode(chosen, Write("atomic-restored", 2, "after", in_order=True), 2))
    with pytest.raises(NotRepeated, match="to topic atomic-restored, and is to write it to topic atomic-elsewhere now"):
        write_together(other, encode(other, Write("atomic-restored", 3, "after", in_order=True), 2))
    assert found(node, "atomic-restored") == list(range(ROWS))


def test_a_write_without_a_version_is_written_each_time(node: NodeProcess) -> None:
    chosen = prepare(node, "atomic-batch")
    for attempt in ("a", "b"):
        assert write_together(chosen, encode(chosen, Write(f"atomic-batch-{attempt}", -1, attempt), 2))
    assert found(node, "atomic-batch") == sorted([*range(ROWS)] * 2)


class Killed(BaseException):
    """Ends the driver in the middle."""


def kill() -> None:
    raise Killed


@pytest.mark.parametrize("lost", ["sent", "answer"])
def test_a_driver_that_is_killed_at_each_request_leaves_all_or_nothing(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """No request of the killed driver follows: its transaction stays open until the next attempt begins its own."""
    name = f"atomic-killed-{lost}"
    chosen, breaking, outcomes, version, killed = prepare(node, name), Breaking(monkeypatch, lost), set(), 0, True
    while killed:
        write = Write(name, version, "before")
        results = encode(chosen, write, 2, version * ROWS)
        breaking.start(version + 1, kill)
        try:
            killed = not write_together(chosen, results)
        except Killed:
            offset_reader_for(chosen.kafka).close()
        breaking.start(0)
        settle(chosen, write)
        visible = len(found(node, name)) - version * ROWS
        outcomes.add(visible)
        again = encode(chosen, Write(name, version, "after"), 3, version * ROWS)
        assert write_together(chosen, again) == (visible == 0)
        version += 1
    assert found(node, name) == list(range(version * ROWS))
    assert version > 8
    assert outcomes == {0, ROWS}


def settle(chosen: SinkOptions, write: Write) -> None:
    """Waits until the outcome of the driver's transaction, if it is decided, has reached all partitions."""
    brokers = offset_reader_for(chosen.kafka)
    request = DescribeTransactionsRequest(transactional_ids=[write.transactional_id(DRIVER)])

    def attempt() -> None:
        (state,) = brokers.request(request).transaction_states
        if state.transaction_state.startswith("Prepare"):
            raise ConcurrentTransactionsError(f"the transaction is in the state {state.transaction_state}")

    brokers.retry(attempt, "waiting for the outcome")


@pytest.mark.parametrize("lost", ["sent", "answer"])
def test_each_lost_request_of_the_driver_is_repeated(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    name = f"atomic-lost-{lost}"
    chosen, breaking, version = prepare(node, name), Breaking(monkeypatch, lost), 0
    while version == 0 or breaking.count >= breaking.at:
        results = encode(chosen, Write(name, version, str(version)), 2, version * ROWS)
        breaking.start(version + 1)
        assert write_together(chosen, results)
        version += 1
    assert version > 8
    assert found(node, name) == list(range(version * ROWS))


def test_a_driver_that_was_overtaken_writes_nothing(node: NodeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new driver begins while the old one waits for the answer to its last request before the commit."""
    chosen = prepare(node, "atomic-overtaken")
    results = encode(chosen, Write("atomic-overtaken", 0, "before"), 2)
    mark, once = Transaction.mark, [True]

    def overtaken(transaction: Transaction, marker: Marker) -> None:
        mark(transaction, marker)
        if once and once.pop():
            assert write_together(chosen, encode(chosen, Write("atomic-overtaken", 0, "after"), 3))

    monkeypatch.setattr(Transaction, "mark", overtaken)
    with pytest.raises(KafkaError):
        write_together(chosen, results)
    assert found(node, "atomic-overtaken") == list(range(ROWS))


def test_a_driver_that_commits_before_it_is_overtaken_is_noticed(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new driver starts; before its first request arrives, the old one commits."""
    chosen = prepare(node, "atomic-late")
    assert write_together(chosen, encode(chosen, Write("atomic-late", 0, "before"), 2))
    late = encode(chosen, Write("atomic-late", 1, "before"), 2, ROWS)
    results = encode(chosen, Write("atomic-late", 1, "after"), 3, ROWS)
    begin, once = Transaction.begin, [True]

    def overtaken(transaction: Transaction, timeout_ms: int) -> None:
        if once and once.pop():
            assert write_together(chosen, late)
        begin(transaction, timeout_ms)

    monkeypatch.setattr(Transaction, "begin", overtaken)
    assert not write_together(chosen, results)
    assert found(node, "atomic-late") == list(range(2 * ROWS))


def test_a_batch_that_is_refused_fails_the_write(node: NodeProcess) -> None:
    create(node.bootstrap, {"atomic-narrow": 1}, **{"max.message.bytes": "1000"})
    chosen = options(node, "atomic-narrow", delivery="atomic")
    large = rows(range(300), key=[*[b"key"] * 299, bytes(1000)])
    results = [encode_for_driver(chosen, Write("atomic-narrow", 0), 0, large)]
    with pytest.raises(KafkaError, match=r"atomic-narrow-0: .*a batch of 1 record .*max.message.bytes"):
        write_together(chosen, results)
    assert found(node, "atomic-narrow") == []
    assert write_together(chosen, [encode_for_driver(chosen, Write("atomic-narrow", 1), 0, rows(range(300)))])
    assert found(node, "atomic-narrow") == list(range(300)), "a batch that is too large is cut"


@pytest.mark.slow
def test_a_transaction_that_timed_out_is_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver pauses for longer than kafka.transaction.timeout.ms; the next attempt writes everything."""
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 50}
    with NodeProcess(tmp_path / "data", settings=often) as node:
        chosen = prepare(node, "slow", **{"kafka.transaction.timeout.ms": "1000"})
        mark = Transaction.mark

        def paused(transaction: Transaction, marker: Marker) -> None:
            mark(transaction, marker)
            while transaction.is_open:
                sockets.sleep(0.05)

        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "mark", paused)
            with pytest.raises(KafkaError):
                write_together(chosen, encode(chosen, Write("slow", 0), 2))
        settle(chosen, Write("slow", 0))
        assert found(node, "slow") == []
        assert write_together(chosen, encode(chosen, Write("slow", 0), 2))
        assert found(node, "slow") == list(range(ROWS))


def test_another_delivery_in_the_middle_of_a_version_doubles_nothing(server: ServerProcess) -> None:
    chosen = prepare(server, "atomic-changed")
    by_tasks = options(server, "atomic-changed")
    write_once(by_tasks, Write("atomic-changed", 0, "before"), 1, rows(range(1, ROWS, 2)))
    with pytest.raises(NotRepeated, match=r"12 rows in task 1.*with delivery 'exactly_once', as it was"):
        write_together(chosen, encode(chosen, Write("atomic-changed", 0, "after"), 2))
    commit_once(by_tasks, [
        write_once(by_tasks, Write("atomic-changed", 0, "third"), task, rows(range(task, ROWS, 2))) for task in (0, 1)
    ])  # fmt: skip
    assert write_together(chosen, encode(chosen, Write("atomic-changed", 1, "fourth"), 2, ROWS))
    back = write_once(by_tasks, Write("atomic-changed", 1, "fifth"), 5, rows(range(ROWS, 2 * ROWS)))
    assert back.skipped
    assert found(server, "atomic-changed") == list(range(2 * ROWS))


@pytest.mark.parametrize("check", ["content", "none"])
def test_a_driver_of_before_doubles_nothing_that_tasks_have_written_since(
    node: NodeProcess, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stalls before its first request; a run with another delivery completes the micro-batch meanwhile."""
    name = f"atomic-stalled-{check}"
    chosen, by_tasks = prepare(node, name, replayCheck=check), options(node, name, replayCheck=check)
    assert write_together(chosen, encode(chosen, Write(name, 0, "before", in_order=True), 2))
    late = encode(chosen, Write(name, 1, "before", in_order=True), 2, ROWS)
    assert not all(one.may_repeat for one in late)
    after = Write(name, 1, "after", in_order=True)
    commit_once(by_tasks, [
        write_once(by_tasks, after, task, rows(range(ROWS + task, 2 * ROWS, 2))) for task in (0, 1)
    ])  # fmt: skip
    if check == "none":
        assert write_together(chosen, late)
        assert found(node, name) == sorted([*range(2 * ROWS), *range(ROWS, 2 * ROWS)])
        return
    with pytest.raises(NotRepeated, match=r"another run of .* has begun with micro-batch 1 meanwhile"):
        write_together(chosen, late)
    assert found(node, name) == list(range(2 * ROWS))


@pytest.mark.parametrize("first", ["there", "without rows"])
def test_a_run_goes_on_after_a_first_micro_batch_that_it_does_not_write(server: ServerProcess, first: str) -> None:
    """It has claimed the query all the same."""
    name = f"atomic-goes-on-{len(first)}"
    chosen = prepare(server, name)
    for version in (0, 1):
        assert write_together(chosen, encode(chosen, Write(name, version, "before", in_order=True), 2, version * ROWS))
    if first == "there":
        assert not write_together(chosen, encode(chosen, Write(name, 1, "after", in_order=True), 3, ROWS))
    else:
        nothing = encode_for_driver(chosen, Write(name, 2, "after", in_order=True), 0, rows())
        assert not write_together(chosen, [nothing])
    results = encode(chosen, Write(name, 3, "after", in_order=True), 2, 2 * ROWS)
    assert not any(one.may_repeat for one in results)
    assert write_together(chosen, results)
    assert found(server, name) == list(range(3 * ROWS))


def test_a_write_that_is_too_large_says_what_to_set(node: NodeProcess) -> None:
    chosen = prepare(node, "atomic-large", atomicBytesMax="5000")
    with pytest.raises(TooLarge, match=r"larger than 5000. Set the option atomicBytesMax higher.*spark.driver.memory"):
        encode_for_driver(chosen, Write("atomic-large", 0), 0, rows(range(1000)))
    results = [encode_for_driver(chosen, Write("atomic-large", 0), task, rows(range(200))) for task in range(3)]
    with pytest.raises(TooLarge, match="maxOffsetsPerTrigger"):
        write_together(chosen, results)
    assert found(node, "atomic-large") == []
