"""Ends the transactions that tasks have left open, on the driver, when all tasks of a write have finished. Blocking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from minikafka.protocol.counted import counted
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, RequestTimedOutError
from minikafka.spark_connector.brokers.offset_reader import offset_reader_for
from minikafka.spark_connector.options.sink_options import SinkOptions
from minikafka.spark_connector.sink.earlier_attempts import (
    DRIVER,
    Write,
    check_other_tasks,
    claim,
    fence,
    transactional_ids,
)
from minikafka.spark_connector.sink.sink_tasks import DRIVER_TIMEOUT_MS, TASK_TIMEOUT_MS, TaskResult
from minikafka.spark_connector.sink.task_transaction import Transaction


class PartlyCommitted(Exception):
    """Some or all of the transactions of a write were not committed."""


def commit_once(options: SinkOptions, results: Sequence[TaskResult]) -> None:
    """Completes a write that Spark may repeat; most tasks have committed their transactions themselves.

    If no task rules out an earlier attempt, this attempt claims the query, fences all tasks of earlier attempts, and
    reads what these have committed, before it commits its own transactions.

    Raises NotRepeated, PartlyCommitted, KafkaError.
    """
    write = results[0].write if results else None
    if write is not None and (all(one.may_repeat for one in results) or any(one.transactional_id for one in results)):
        brokers, tasks = offset_reader_for(options.kafka), [one.task for one in results if one.rows]
        timeout_ms = options.transaction_timeout_ms or TASK_TIMEOUT_MS
        claim(brokers, write, {tp.topic for one in results for tp in one.partitions})
        check_other_tasks(brokers, write, tasks, timeout_ms)
    commit_all(options, results)


def end_attempts(options: SinkOptions, write: Write, results: Iterable[Any] = ()) -> None:
    """Aborts the transactions of all attempts of a batch write's tasks, except those of `results`.

    Spark may start several attempts of a task (by speculation, after a lost executor), and reports one of each task.
    The others are found by their transactional ids, which the coordinators list. Before that the driver begins with a
    transactional id of its own: an attempt that begins so late that it is not listed finds it, and writes nothing.

    Args:
        results: those that Spark has reported; None for a task without a result.

    Raises KafkaError: a transaction that remains open is aborted by its time-out.
    """
    brokers, timeout_ms = offset_reader_for(options.kafka), options.transaction_timeout_ms or DRIVER_TIMEOUT_MS
    mine = write.transactional_id(DRIVER)
    fence(brokers, [mine], timeout_ms)
    kept = {mine, *(one.transactional_id for one in results if one is not None)}
    fence(brokers, [one for one in transactional_ids(brokers, write.name) if one not in kept], timeout_ms)


def commit_all(options: SinkOptions, results: Iterable[TaskResult]) -> None:
    """Commits the transactions that the tasks have left open, if all of them are still open.

    Raises PartlyCommitted if a transaction is no longer open; if this is noticed before the first commit, nothing is
    committed. Raises KafkaError.
    """
    transactions = [found for one in results if (found := _transaction_of(options, one)) is not None]
    expired = [one.transactional_id for one in transactions if not one.is_open]
    if expired:
        raise PartlyCommitted(
            f"nothing was committed: {len(expired)} of {counted(len(transactions), 'transaction')} aborted meanwhile,"
            f" by their time-out (kafka.transaction.timeout.ms), as {expired[0]}"
        )
    for done, one in enumerate(transactions):
        try:
            one.end(commit=True)
        except Exception as error:
            raise PartlyCommitted(
                f"{done} of {counted(len(transactions), 'transaction')} committed, {one.transactional_id} not: {error}"
            ) from error


def abort_all(options: SinkOptions, results: Iterable[Any]) -> None:
    """Aborts the transactions that the tasks have left open; those of tasks without a result are left to the next run.

    Raises the last KafkaError after all transactions have been tried, but RequestTimedOutError at once, because each of
    the others would wait as long. A transaction that remains open is aborted by its time-out.
    """
    failure: KafkaError | None = None
    for one in results:
        try:
            if (found := _transaction_of(options, one)) is not None:
                found.end(commit=False)
        except RequestTimedOutError:
            raise
        except KafkaError as error:
            if error.code != ErrorCode.INVALID_TXN_STATE:  # INVALID_TXN_STATE: it has been committed.
                failure = error
    if failure is not None:
        raise failure


def _transaction_of(options: SinkOptions, result: TaskResult | None) -> Transaction | None:
    if result is None or result.transactional_id is None:
        return None
    transaction = Transaction(offset_reader_for(options.kafka), result.transactional_id)
    transaction.resume(result.producer_id, result.epoch, result.partitions)
    return transaction
