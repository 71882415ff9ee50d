"""The writers that Spark calls: `write` in the executors, `commit` and `abort` on the driver.

Modules with heavy imports are imported when needed, because Spark imports this module in every session.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from minikafka.spark_connector.options.sink_options import SinkOptions

_logger = logging.getLogger(__name__)


def checked_options(given_options: Mapping[str, str], schema: StructType) -> SinkOptions:
    """Parses the options, checks the columns, and contacts the cluster, on the driver, before any task starts.

    Otherwise each attempt of each task, and the final abort, would wait for a cluster that does not respond.

    Raises RefusedOption, UnsuitableColumn; RequestTimedOutError, which names address and error, after
    `kafka.max.block.ms`; other KafkaErrors.
    """
    from minikafka.spark_connector.brokers.offset_reader import offset_reader_for
    from minikafka.spark_connector.options.sink_options import parse_sink
    from minikafka.spark_connector.sink.sink_columns import check_schema

    options = parse_sink(given_options)
    check_schema(schema, options.topic)
    offset_reader_for(options.kafka).refresh(())
    return options


class BatchWriter(DataSourceArrowWriter):
    """Writes a data frame: readers of committed records see no record before all tasks have succeeded."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        from minikafka.spark_connector.brokers.sockets import random_id
        from minikafka.spark_connector.sink.earlier_attempts import Write

        options, attempt = checked_options(given, schema), random_id()
        self._options = options
        self._write = Write(f"{options.prefix}-{options.app_id or attempt}", options.version, attempt)
        self._by_attempts = options.exactly_once and not options.atomic and not options.app_id
        """Whether each attempt of a task has a transaction, which the driver ends."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task. Raises NotRepeated, UnsuitableColumn, TooLarge, KafkaError."""
        from minikafka.spark_connector.sink import atomic_writes, sink_tasks

        context, options, write = _context(), self._options, self._write
        if not options.exactly_once:
            return sink_tasks.write_plainly(options, iterator)
        if self._by_attempts:
            return sink_tasks.write_for_driver(options, write, context.taskAttemptId(), iterator)
        put = atomic_writes.encode_for_driver if options.atomic else sink_tasks.write_once
        return put(options, write, context.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commits what tasks have left to the driver. Raises PartlyCommitted, NotRepeated, TooLarge, KafkaError."""
        from minikafka.spark_connector.sink.driver_commits import end_attempts

        if self._by_attempts:
            end_attempts(self._options, self._write, messages)
        _commit(self._options, messages, f"the write {self._write.name}")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Aborts the transactions of all attempts of tasks; with txnAppId, those that are left to the driver.

        Raises KafkaError: a transaction that remains open is aborted by its time-out.
        """
        from minikafka.spark_connector.sink.driver_commits import abort_all, end_attempts

        if self._by_attempts:
            end_attempts(self._options, self._write)
        elif self._options.exactly_once and not self._options.atomic:
            abort_all(self._options, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches: each task commits its own transaction, or with `delivery` atomic the driver commits one."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = checked_options(given, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task of a micro-batch. Raises NotRepeated, UnsuitableColumn, TooLarge, KafkaError."""
        from minikafka.spark_connector.sink import atomic_writes, sink_tasks
        from minikafka.spark_connector.sink.earlier_attempts import Write

        options = self._options
        if not options.exactly_once:
            return sink_tasks.write_plainly(options, iterator)
        context = _context()
        query = context.getLocalProperty("sql.streaming.queryId")
        run = context.getLocalProperty("spark.jobGroup.id")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if not query or not run or batch is None:
            raise RuntimeError("Spark does not tell this task its query, run and micro-batch, which exactly_once needs")
        write = Write(f"{options.prefix}-{query}", int(batch), run, in_order=True)
        put = atomic_writes.encode_for_driver if options.atomic else sink_tasks.write_once
        return put(options, write, context.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Commits what tasks have left to the driver. Raises PartlyCommitted, NotRepeated, TooLarge, KafkaError."""
        _commit(self._options, messages, f"micro-batch {batchId}")

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Aborts the transactions that are left to the driver; tasks that were killed are fenced when repeated."""
        from minikafka.spark_connector.sink.driver_commits import abort_all

        if self._options.exactly_once and not self._options.atomic:
            abort_all(self._options, messages)


def _commit(options: SinkOptions, messages: Sequence[Any], what: str) -> None:
    """Commits the transactions or rows that the tasks have left to the driver, and logs the number of rows written."""
    from minikafka.spark_connector.sink import atomic_writes, driver_commits

    results = [one for one in messages if one is not None]
    skipped = sum(one.rows for one in results if one.skipped)
    if options.atomic:
        if not atomic_writes.write_together(options, results):
            skipped = sum(one.rows for one in results)
    elif any(one.write for one in results):
        driver_commits.commit_once(options, results)
    elif options.exactly_once:
        driver_commits.commit_all(options, results)
    rows = sum(one.rows for one in results) - skipped
    level = logging.WARNING if skipped or options.log_progress else logging.INFO
    text = "%s: %d rows written in %d tasks, %d rows were there before"
    _logger.log(level, text, what, rows, len(results), skipped)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("write() is called outside of a Spark task")
    return context
