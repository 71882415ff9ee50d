"""What one task of a write does, in an executor: `delivery`, transactions and markers.

A write that Spark may repeat (a micro-batch of a stream; a batch write with txnAppId and txnVersion) is committed by
each task itself, with a marker (`write_once`). Any other batch write leaves the transactions of its tasks open until
the driver commits them all (`write_for_driver`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.offset_reader import offset_reader_for
from minikafka.spark_connector.replay_check import Content, Marker, check_repeated
from minikafka.spark_connector.sink_columns import rows_of
from minikafka.spark_connector.sink_options import SinkOptions
from minikafka.spark_connector.task_transaction import Transaction
from minikafka.spark_connector.task_writer import TaskWriter

if TYPE_CHECKING:
    import pyarrow as pa

TASK_TIMEOUT_MS, DRIVER_TIMEOUT_MS = 300_000, 900_000
"""The transaction time-outs: of a transaction that a task commits itself, and of one that waits for all tasks."""


@dataclass
class TaskResult(WriterCommitMessage):
    """What a task reports to the driver.

    Attributes:
        rows: the number of records of the task.
        skipped: whether they had been committed before.
        transactional_id: of the transaction that the driver must end; None if there is none.
    """

    rows: int = 0
    skipped: bool = False
    transactional_id: str | None = None
    producer_id: int = -1
    epoch: int = -1
    partitions: list[TopicPartition] = field(default_factory=list)


def write_plainly(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> TaskResult:
    """`delivery` at_least_once: an idempotent producer, no transaction."""
    return _written(options, Transaction(offset_reader_for(options.kafka), None), batches, TASK_TIMEOUT_MS)


def write_for_driver(options: SinkOptions, transactional_id: str, batches: Iterator[pa.RecordBatch]) -> TaskResult:
    """Writes in a transaction that the driver ends. If that fails, the transaction is aborted."""
    first = next((one for one in batches if len(one)), None)
    if first is None:
        return TaskResult()
    transaction = Transaction(offset_reader_for(options.kafka), transactional_id)
    with _aborted_on_error(transaction):
        return _written(options, transaction, chain([first], batches), DRIVER_TIMEOUT_MS)


def write_once(
    options: SinkOptions, name: str, version: int, task: int, batches: Iterator[pa.RecordBatch]
) -> TaskResult:
    """Writes the rows of a task unless it has committed this version before.

    Args:
        name: the part of transactional ids that all tasks of the query have in common.
        version: the number of the micro-batch.
        task: the number of the task within its stage.

    Raises NotRepeated, UnsuitableColumn, KafkaError.
    """
    transaction = Transaction(offset_reader_for(options.kafka), f"{name}-{task}")
    first = next((one for one in batches if len(one)), None)
    if first is None:
        marker = None if options.replay_check == "none" else transaction.marker()
        if marker is not None and marker.version == version:
            check_repeated(marker, Content(), options.replay_check, f"task {task} of {name}")
        return TaskResult()
    batches = chain([first], batches)
    transaction.begin(options.transaction_timeout_ms or TASK_TIMEOUT_MS)
    marker = transaction.marker()
    if marker is not None and marker.version >= version:
        again = _content(options, batches)
        if marker.version == version:
            check_repeated(marker, again, options.replay_check, f"task {task} of {name}")
        return TaskResult(again.rows, skipped=True)
    with _aborted_on_error(transaction):
        writer = TaskWriter(offset_reader_for(options.kafka), options, transaction)
        with contextlib.closing(writer):
            writer.write(batches)
        transaction.mark(Marker(version, writer.content))
    transaction.end(commit=True)
    return TaskResult(writer.content.rows)


def _written(
    options: SinkOptions, transaction: Transaction, batches: Iterable[pa.RecordBatch], timeout_ms: int
) -> TaskResult:
    transaction.begin(options.transaction_timeout_ms or timeout_ms)
    with contextlib.closing(TaskWriter(offset_reader_for(options.kafka), options, transaction)) as writer:
        writer.write(batches)
    return TaskResult(
        writer.content.rows,
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        epoch=transaction.epoch,
        partitions=writer.partitions,
    )


def _content(options: SinkOptions, batches: Iterable[pa.RecordBatch]) -> Content:
    found = Content()
    for batch in batches:
        if len(batch):
            records = rows_of(batch, options.topic, 0).records
            found.add(records.keys, records.values)
    return found


@contextlib.contextmanager
def _aborted_on_error(transaction: Transaction) -> Iterator[None]:
    """Aborts the transaction if the task fails; if that fails as well, the next attempt or the time-out does it."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(KafkaError):
            transaction.end(commit=False)
        raise
