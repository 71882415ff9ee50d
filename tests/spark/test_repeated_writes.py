"""A micro-batch that is repeated with other tasks is not written twice: the driver finds what was written before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.node import NodeProcess, ServerProcess
from support.spark_brokers import create
from support.spark_sink import numbers, options, read_committed, rows

from minikafka.protocol.errors import KafkaError, UnsupportedVersionError
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest
from minikafka.spark_connector.brokers.offset_reader import OffsetReader, offset_reader_for
from minikafka.spark_connector.options.sink_options import SinkOptions, parse_sink
from minikafka.spark_connector.sink import earlier_attempts
from minikafka.spark_connector.sink.driver_commits import abort_all, commit_once
from minikafka.spark_connector.sink.earlier_attempts import Write, claim, may_repeat
from minikafka.spark_connector.sink.replay_check import NotRepeated
from minikafka.spark_connector.sink.sink_tasks import TaskResult, write_once
from minikafka.spark_connector.sink.task_transaction import Transaction

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
ROWS = 24


def prepare(server: ServerProcess, name: str, **more: str) -> SinkOptions:
    create(server.bootstrap, {name: 2})
    return options(server, name, **more)


def share(task: int, count: int) -> range:
    """The rows of a task, if there are so many tasks."""
    return range(task, ROWS, count)


def run(chosen: SinkOptions, write: Write, count: int, tasks: Sequence[int] | None = None) -> list[TaskResult]:
    """Runs tasks of a write that has so many: by default all of them."""
    return [write_once(chosen, write, task, rows(share(task, count))) for task in (tasks or range(count))]


@pytest.mark.slow
def test_fewer_tasks_are_refused_before_anything_is_doubled(server: ServerProcess) -> None:
    """Tasks 2 and 3 of the first attempt have committed; the second has two tasks, which have not."""
    chosen = prepare(server, "fewer")
    run(chosen, Write("fewer", 0, "before"), 4)
    run(chosen, Write("fewer", 1, "before", in_order=True), 4, [2, 3])
    again = run(chosen, Write("fewer", 1, "after"), 2)
    assert all(one.transactional_id for one in again), "they wait for the driver"
    words = r"micro-batch 1 of fewer .* committed 12 rows in tasks 2, 3, .* has its rows in tasks 0, 1.*'atomic'"
    with pytest.raises(NotRepeated, match=words):
        commit_once(chosen, again)
    abort_all(chosen, again)
    there = sorted([*range(ROWS), *share(2, 4), *share(3, 4)])
    assert numbers(read_committed(server.bootstrap, "fewer")) == there
    as_before = run(chosen, Write("fewer", 1, "third"), 4)
    commit_once(chosen, as_before)
    assert [one.skipped for one in as_before] == [False, False, True, True]
    assert numbers(read_committed(server.bootstrap, "fewer")) == sorted([*range(ROWS)] * 2)


def test_the_same_tasks_complete_what_is_missing(server: ServerProcess) -> None:
    chosen = prepare(server, "same")
    run(chosen, Write("same", 3, "before"), 3, [1])
    missing = run(chosen, Write("same", 3, "after"), 3)
    assert numbers(read_committed(server.bootstrap, "same")) == list(share(1, 3))
    commit_once(chosen, missing)
    assert numbers(read_committed(server.bootstrap, "same")) == list(range(ROWS))


def test_more_tasks_are_refused_before_anything_is_doubled(server: ServerProcess) -> None:
    chosen = prepare(server, "more")
    run(chosen, Write("more", 0, "before"), 2, [1])
    write = Write("more", 0, "after")
    others = run(chosen, write, 4, [0, 2, 3])
    with pytest.raises(NotRepeated, match="task 1 of more has committed micro-batch 0 before"):
        run(chosen, write, 4, [1])
    abort_all(chosen, [others[0], None, *others[1:]])
    assert numbers(read_committed(server.bootstrap, "more")) == list(share(1, 2))


def test_a_commit_that_has_not_reached_its_marker_counts_as_an_earlier_attempt(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator has decided, but the marker is not listed yet, as happens with Apache Kafka."""
    chosen = prepare(node, "decided")
    run(chosen, Write("decided", 0, "before"), 2, [1])
    usual, listed = OffsetReader.request, 0

    def still_ending(reader: OffsetReader, request: Any, *arguments: Any, **more: Any) -> Any:
        nonlocal listed
        response = usual(reader, request, *arguments, **more)
        if isinstance(request, ListTransactionsRequest):
            listed += 1
            for one in response.transaction_states:
                one.transaction_state = "PrepareCommit" if listed < 3 else "CompleteCommit"
        elif isinstance(request, OffsetFetchRequest) and listed < 3:
            for group in response.groups:
                group.topics = []
        return response

    monkeypatch.setattr(OffsetReader, "request", still_ending)
    again = run(chosen, Write("decided", 0, "after"), 4, [0, 2, 3])
    assert listed == 3
    assert all(one.transactional_id for one in again), "they wait for the driver"
    abort_all(chosen, again)
    assert numbers(read_committed(node.bootstrap, "decided")) == list(share(1, 2))


def test_rows_that_left_a_task_are_found(node: NodeProcess) -> None:
    """The task still exists, without rows."""
    chosen = prepare(node, "left")
    zombie = write_once(chosen, Write("left", 0, "before"), 1, rows(share(1, 2)))
    again = [
        write_once(chosen, Write("left", 0, "after"), 0, rows(range(ROWS))),
        TaskResult(task=1, write=Write("left", 0, "after"), may_repeat=True),
    ]
    assert zombie.rows == 12
    with pytest.raises(NotRepeated, match="12 rows in task 1, and this attempt has its rows in task 0"):
        commit_once(chosen, again)


@pytest.mark.parametrize("check", ["content", "none"])
def test_a_zombie_with_another_number_is_fenced_by_the_driver(node: NodeProcess, check: str) -> None:
    """Task 3 of an attempt with four tasks still writes while an attempt with two tasks completes the micro-batch."""
    name = f"zombie-{check}"
    chosen = prepare(node, name, replayCheck=check)

    def overtaken() -> Iterator[Any]:
        yield from rows(share(3, 4))
        commit_once(chosen, run(chosen, Write(name, 0, "after"), 2))

    if check == "none":
        write_once(chosen, Write(name, 0, "before"), 3, overtaken())
        assert numbers(read_committed(node.bootstrap, name)) == sorted([*range(ROWS), *share(3, 4)])
        return
    with pytest.raises(KafkaError):
        write_once(chosen, Write(name, 0, "before"), 3, overtaken())
    assert numbers(read_committed(node.bootstrap, name)) == list(range(ROWS))


@pytest.mark.parametrize("stalls_in", ["a later micro-batch", "the first one", "the first one, which is repeated"])
@pytest.mark.parametrize("check", ["content", "none"])
def test_a_zombie_that_begins_after_the_micro_batch_is_complete_writes_nothing(
    node: NodeProcess, stalls_in: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Task 3 stalls before its first request, so that nobody can fence it, until a run with two tasks has it all."""
    name = f"stalled-{check}-{len(stalls_in)}"
    chosen = prepare(node, name, replayCheck=check)
    expected = [*range(ROWS)]
    if stalls_in == "a later micro-batch":
        commit_once(chosen, run(chosen, Write(name, 0, "before", in_order=True), 4))
        expected *= 2
    if "repeated" in stalls_in:
        offset_reader = offset_reader_for(chosen.kafka)
        claim(offset_reader, Write(name, 1, "long before", in_order=True), [name])
    usual, stalled = Transaction.begin, [True]

    def begin(transaction: Transaction, timeout_ms: int) -> None:
        if stalled and transaction.transactional_id == f"{name}-3":
            stalled.clear()
            commit_once(chosen, run(chosen, Write(name, 1, "after", in_order=True), 2))
        usual(transaction, timeout_ms)

    monkeypatch.setattr(Transaction, "begin", begin)
    zombie = Write(name, 1, "before", in_order=True)
    if check == "none":
        write_once(chosen, zombie, 3, rows(share(3, 4)))
        assert numbers(read_committed(node.bootstrap, name)) == sorted([*expected, *share(3, 4)])
        return
    with pytest.raises(NotRepeated, match=r"another run of .* has begun with micro-batch 1 meanwhile"):
        write_once(chosen, zombie, 3, rows(share(3, 4)))
    assert numbers(read_committed(node.bootstrap, name)) == sorted(expected)


def test_a_zombie_that_is_fenced_before_it_finds_the_claim_writes_nothing(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is there before the tasks of others are listed: here the zombie begins between the two."""
    chosen = prepare(node, "listed")
    commit_once(chosen, run(chosen, Write("listed", 0, "before", in_order=True), 4))
    usual = earlier_attempts.transactional_ids
    refusals: list[str] = []

    def listed(brokers: OffsetReader, name: str) -> list[str]:
        found = usual(brokers, name)
        if not refusals and found:
            with pytest.raises(NotRepeated, match="another run") as refused:
                write_once(chosen, Write("listed", 1, "before", in_order=True), 5, rows(share(5, 6)))
            refusals.append(str(refused.value))
        return found

    results = run(chosen, Write("listed", 1, "after", in_order=True), 2)
    monkeypatch.setattr(earlier_attempts, "transactional_ids", listed)
    commit_once(chosen, results)
    assert refusals
    assert numbers(read_committed(node.bootstrap, "listed")) == sorted([*range(ROWS)] * 2)


def test_a_run_goes_on_after_its_claim_and_after_runs_that_have_claimed_without_rows(server: ServerProcess) -> None:
    chosen = prepare(server, "goes-on")
    for number in range(4):
        for version in range(3 * number, 3 * number + 3):
            write = Write("goes-on", version, f"run {number}", in_order=True)
            no_rows = number == 2 and version == 6
            results = [write_once(chosen, write, 0, rows())] if no_rows else run(chosen, write, 2)
            assert version % 3 == 0 or not any(one.transactional_id for one in results)
            commit_once(chosen, results)
    assert numbers(read_committed(server.bootstrap, "goes-on")) == sorted([*range(ROWS)] * 11)


def test_what_a_run_of_before_has_claimed_waits_for_the_driver(node: NodeProcess) -> None:
    """A task of that run may still stall: then only one of the two drivers can commit, which fences the other's."""
    chosen = prepare(node, "claimed")
    claim(offset_reader_for(chosen.kafka), Write("claimed", 1, "before", in_order=True), ["claimed"])
    results = run(chosen, Write("claimed", 1, "after", in_order=True), 2)
    assert all(one.transactional_id for one in results)
    assert read_committed(node.bootstrap, "claimed") == []
    commit_once(chosen, results)
    assert numbers(read_committed(node.bootstrap, "claimed")) == list(range(ROWS))


def test_a_driver_of_before_that_finds_the_claim_of_a_later_run_commits_nothing(node: NodeProcess) -> None:
    chosen = prepare(node, "overtaken")
    brokers = offset_reader_for(chosen.kafka)
    claim(brokers, Write("overtaken", 2, "after", in_order=True), ["overtaken"])
    with pytest.raises(NotRepeated, match="has committed micro-batch 2, and is to write micro-batch 1 now"):
        claim(brokers, Write("overtaken", 1, "before", in_order=True), ["overtaken"])


def test_a_zombie_that_commits_in_between_is_reported(node: NodeProcess) -> None:
    chosen = prepare(node, "between")
    run(chosen, Write("between", 0, "before", in_order=True), 4)
    results = run(chosen, Write("between", 1, "after"), 2)
    write_once(chosen, Write("between", 1, "before", in_order=True), 3, rows(share(3, 4)))
    with pytest.raises(NotRepeated, match="6 rows in task 3"):
        commit_once(chosen, results)


def test_an_attempt_of_an_older_version_writes_nothing(node: NodeProcess) -> None:
    """With txnVersion: also tasks that had no rows then are recognized."""
    chosen = prepare(node, "older")
    run(chosen, Write("older", 5, "before"), 2)
    again = run(chosen, Write("older", 4, "after"), 4)
    assert [one.skipped for one in again] == [True] * 4
    commit_once(chosen, again)
    assert numbers(read_committed(node.bootstrap, "older")) == list(range(ROWS))


def test_only_the_first_version_of_an_attempt_may_repeat_another(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert may_repeat(Write("order", 7, "run", in_order=True))
    assert may_repeat(Write("order", 7, "run", in_order=True))
    assert not may_repeat(Write("order", 8, "run", in_order=True))
    assert may_repeat(Write("order", 8, "another", in_order=True))
    assert may_repeat(Write("order", 8, "run"))
    chosen = prepare(node, "order")

    def unexpected(*_: object) -> None:
        raise AssertionError("transactions are listed, which costs requests")

    monkeypatch.setattr(earlier_attempts, "transactional_ids", unexpected)
    results = run(chosen, Write("order", 8, "run", in_order=True), 2)
    commit_once(chosen, results)
    assert not any(one.transactional_id for one in results)


def test_a_broker_that_cannot_list_transactions_is_named(node: NodeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise UnsupportedVersionError("no version of ListTransactions")

    monkeypatch.setattr(OffsetReader, "request", refused)
    with pytest.raises(NotRepeated, match=r"cannot list transactions \(Kafka 3.0\).* which old wrote .*'none'"):
        earlier_attempts.transactional_ids(OffsetReader(options(node, "old").kafka), "old")


def test_the_names_of_queries_are_told_apart(node: NodeProcess) -> None:
    """One name may begin with another, and may have characters that are special in patterns."""
    chosen = prepare(node, "names")
    for name in ("a.b", "a.b-1", "axb", "a.b-c"):
        run(chosen, Write(name, 0), 2)
    brokers = OffsetReader(chosen.kafka)
    try:
        assert earlier_attempts.transactional_ids(brokers, "a.b") == ["a.b-0", "a.b-1"]
    finally:
        brokers.close()


def test_a_stream_with_an_older_checkpoint_than_what_it_has_written_is_refused(node: NodeProcess) -> None:
    """Its micro-batches may end elsewhere now: to leave out those with numbers that are there would lose records."""
    chosen = prepare(node, "restored")
    run(chosen, Write("restored", 5, "before", in_order=True), 2)
    again = Write("restored", 4, "after", in_order=True)
    for task, check in ((0, "content"), (3, "content"), (1, "none")):
        with pytest.raises(NotRepeated, match="has committed micro-batch 5, and is to write micro-batch 4 now: its"):
            write_once(options(node, "restored", replayCheck=check), again, task, rows(share(task, 4)))
    assert numbers(read_committed(node.bootstrap, "restored")) == list(range(ROWS))
    apart = Write("another-prefix", 4, "after", in_order=True)
    commit_once(chosen, run(chosen, apart, 4))
    assert numbers(read_committed(node.bootstrap, "restored")) == sorted([*range(ROWS)] * 2)


@pytest.mark.parametrize("check", ["content", "none"])
def test_a_copy_of_a_checkpoint_that_writes_to_another_topic_is_refused(node: NodeProcess, check: str) -> None:
    """The marker says that the rows are written, but they are not there."""
    name = f"original-{check}"
    run(prepare(node, name), Write(name, 0, "before", in_order=True), 1)
    copy = prepare(node, f"copy-of-{name}", replayCheck=check)
    again = Write(name, 0, "copy", in_order=True)
    if check == "none":
        assert write_once(copy, again, 0, rows(range(ROWS))).skipped
        return
    with pytest.raises(NotRepeated, match=f"to topic {name}, and is to write it to topic copy-of-{name} now"):
        write_once(copy, again, 0, rows(range(ROWS)))


def test_rows_to_several_topics_are_recognized(node: NodeProcess) -> None:
    for name in ("several-a", "several-b"):
        prepare(node, name)
    chosen = parse_sink({"kafka.bootstrap.servers": node.bootstrap})
    names = [f"several-{'ab'[number % 2]}" for number in range(ROWS)]
    for version in (0, 0, 1):
        write_once(chosen, Write("several", version), 0, rows(range(ROWS), topic=names))
    write_once(chosen, Write("several", 2), 0, rows(range(ROWS), topic=names[:1] * ROWS))
    with pytest.raises(NotRepeated, match="to topic several-a, and is to write it to topic several-a and 1 more now"):
        write_once(chosen, Write("several", 2), 0, rows(range(ROWS), topic=names))
    assert len(read_committed(node.bootstrap, "several-b")) == ROWS
