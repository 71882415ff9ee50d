"""A batch write of which Spark starts several attempts of a task: the driver commits one of each, and ends the others.

Spark may start a speculative attempt while the first one ends, and Python workers outlive the attempts that are killed:
an attempt may begin, write or end at any moment of the driver's commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.types import BinaryType, StructField, StructType
from support.ended_transactions import unended
from support.node import ServerProcess
from support.spark_brokers import create
from support.spark_sink import numbers, read_committed, rows

from minikafka.client.blocking import Admin
from minikafka.protocol.errors import KafkaError
from minikafka.spark_connector.brokers.offset_reader import OffsetReader, offset_reader_for
from minikafka.spark_connector.sink import driver_commits, writers
from minikafka.spark_connector.sink.driver_commits import PartlyCommitted
from minikafka.spark_connector.sink.replay_check import NotRepeated
from minikafka.spark_connector.sink.sink_tasks import TaskResult
from minikafka.spark_connector.sink.task_transaction import Transaction

if TYPE_CHECKING:
    import pyarrow as pa

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]
TASKS, ROWS = 3, 10
SCHEMA = StructType([StructField("value", BinaryType())])


class Job:
    """A batch write of `TASKS` tasks; each has `ROWS` rows."""

    def __init__(self, server: ServerProcess, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
        create(server.bootstrap, {topic: 2})
        given = {"kafka.bootstrap.servers": server.bootstrap, "topic": topic, "transactionalIdPrefix": topic}
        self.writer = writers.BatchWriter(given, SCHEMA)
        self._server, self._topic, self._monkeypatch = server, topic, monkeypatch
        self._attempts = 0

    def run(self, task: int, meanwhile: Callable[[], object] = lambda: None) -> TaskResult:
        """Runs one more attempt of a task; `meanwhile` is called when half of its rows are written."""
        first, self._attempts = task * ROWS, self._attempts + 1
        context = SimpleNamespace(partitionId=lambda: task, taskAttemptId=lambda number=self._attempts: number)

        def batches() -> Iterator[pa.RecordBatch]:
            yield from rows(range(first, first + ROWS // 2))
            meanwhile()
            yield from rows(range(first + ROWS // 2, first + ROWS))

        self._monkeypatch.setattr(writers, "_context", lambda: context)
        result = self.writer.write(batches())
        assert isinstance(result, TaskResult)
        return result

    def check(self, *tasks: int) -> None:
        """Checks that the rows of these tasks are there once, and that no transaction is open."""
        there = numbers(read_committed(self._server.bootstrap, self._topic))
        assert there == [number for task in tasks for number in range(task * ROWS, (task + 1) * ROWS)]
        with Admin(self._server.bootstrap) as admin:
            assert not [one for one in unended(admin, [self._topic]) if one.startswith(self._topic)]


Start = Callable[[str], Job]


@pytest.fixture
def job(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> Start:
    return lambda topic: Job(server, topic, monkeypatch)


def test_an_attempt_that_begins_after_another_has_ended_fences_nothing(job: Start) -> None:
    """Spark reports the first: the second ends as well, or its Python worker is killed, which leaves it open too."""
    write = job("second")
    results = [write.run(task) for task in range(TASKS)]
    write.run(TASKS - 1)
    write.writer.commit(results)
    write.check(*range(TASKS))


def test_the_attempt_that_spark_reports_is_committed(job: Start) -> None:
    write = job("reported")
    results = [write.run(task) for task in range(TASKS)]
    results[0] = write.run(0)
    write.writer.commit(results)
    write.check(*range(TASKS))


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_attempt_that_writes_while_the_driver_ends_the_write_fails(job: Start, end: str) -> None:
    write = job(f"writes-{end}")
    results = [write.run(task) for task in range(TASKS)]
    with pytest.raises(KafkaError):
        write.run(0, lambda: getattr(write.writer, end)(results))
    write.check(*(range(TASKS) if end == "commit" else ()))


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_attempt_that_begins_after_the_driver_has_ended_the_write_writes_nothing(job: Start, end: str) -> None:
    write = job(f"late-{end}")
    results = [write.run(task) for task in range(TASKS)]
    getattr(write.writer, end)(results)
    with pytest.raises(NotRepeated, match=r"the driver has ended the write late-.*: this attempt of a task is late"):
        write.run(0)
    write.check(*(range(TASKS) if end == "commit" else ()))


def test_an_attempt_that_stalls_before_its_first_request_writes_nothing(
    job: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver cannot find it yet when it ends the write."""
    write = job("stalls")
    results = [write.run(task) for task in range(TASKS)]
    usual, stalled = Transaction.begin, False

    def begin(transaction: Transaction, timeout_ms: int) -> None:
        nonlocal stalled
        if not stalled:
            stalled = True
            write.writer.commit(results)
        usual(transaction, timeout_ms)

    monkeypatch.setattr(Transaction, "begin", begin)
    with pytest.raises(NotRepeated):
        write.run(0)
    write.check(*range(TASKS))


@pytest.mark.parametrize("moment", ["before the list", "after the list", "after the first commit"])
def test_an_attempt_that_begins_while_the_driver_commits_changes_nothing(
    job: Start, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    write = job(f"begins-{moment.replace(' ', '-')}")
    results = [write.run(task) for task in range(TASKS)]
    usual_list, usual_end, started = driver_commits.transactional_ids, Transaction.end, list[str]()

    def start(now: str) -> None:
        if now == moment and not started:
            started.append(now)
            with pytest.raises(NotRepeated):
                write.run(TASKS - 1)

    def listed(brokers: OffsetReader, name: str) -> list[str]:
        start("before the list")
        found = usual_list(brokers, name)
        start("after the list")
        return found

    def ended(transaction: Transaction, *, commit: bool) -> None:
        usual_end(transaction, commit=commit)
        if commit:
            start("after the first commit")

    monkeypatch.setattr(driver_commits, "transactional_ids", listed)
    monkeypatch.setattr(Transaction, "end", ended)
    write.writer.commit(results)
    assert started == [moment]
    write.check(*range(TASKS))


def test_a_write_that_fails_ends_the_attempts_that_spark_does_not_report(job: Start) -> None:
    write = job("fails")
    write.run(0)
    write.run(0)
    write.writer.abort([write.run(1), None, None])
    write.check()


def test_a_transaction_that_has_expired_fails_the_write_and_the_others_end(job: Start) -> None:
    write = job("expired")
    results = [write.run(task) for task in range(TASKS)]
    expired = Transaction(offset_reader_for(write.writer._options.kafka), results[1].transactional_id)
    expired.resume(results[1].producer_id, results[1].epoch, results[1].partitions)
    expired.end(commit=False)
    with pytest.raises(PartlyCommitted, match=f"nothing was committed: 1 of 3 .*as {expired.transactional_id}"):
        write.writer.commit(results)
    write.writer.abort(results)
    write.check()
