"""The writers that Spark calls: `write` in the executors, `commit` and `abort` on the driver.

Light imports: Spark imports this module in every session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from minikafka.spark_connector.sink_options import SinkOptions


def checked_options(given: Mapping[str, str], schema: StructType) -> SinkOptions:
    """Parses the options, and checks the columns. Raises RefusedOption, UnsuitableColumn."""
    from minikafka.spark_connector.sink_columns import check_schema
    from minikafka.spark_connector.sink_options import parse_sink

    options = parse_sink(given)
    check_schema(schema, options.topic)
    return options


class PartlyCommitted(Exception):
    """The transactions of a batch write were not all committed."""


class BatchWriter(DataSourceArrowWriter):
    """Writes a data frame: readers of committed records see nothing before all tasks have succeeded."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        from minikafka.spark_connector.sockets import random_id

        options = checked_options(given, schema)
        self._options = options
        self._name = f"{options.prefix}-{options.app_id or random_id()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from minikafka.spark_connector import sink_tasks

        task = _context().partitionId()
        if not self._options.exactly_once:
            return sink_tasks.write_plainly(self._options, iterator)
        if self._options.app_id:
            return sink_tasks.write_once(self._options, self._name, self._options.version, task, iterator)
        return sink_tasks.write_for_driver(self._options, f"{self._name}-{task}", iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commits the transactions of all tasks, if all of them are still open.

        Raises PartlyCommitted if one is not: nothing is committed if that is noticed in time.
        """
        transactions = [found for one in messages if (found := self._transaction_of(one)) is not None]
        expired = [one.transactional_id for one in transactions if not one.is_open]
        if expired:
            raise PartlyCommitted(
                f"nothing was committed: {len(expired)} of {len(transactions)} transactions were aborted meanwhile, by"
                f" their time-out (kafka.transaction.timeout.ms) or another attempt of a task, as {expired[0]}"
            )
        for done, one in enumerate(transactions):
            try:
                one.end(commit=True)
            except Exception as error:
                raise PartlyCommitted(
                    f"{done} of {len(transactions)} transactions are committed, {one.transactional_id} is not: {error}"
                ) from error

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Aborts the transactions of all tasks; those of tasks without a message by starting their producer again.

        Raises the last KafkaError after all have been tried: what remains open is aborted by its time-out.
        """
        from minikafka.protocol.error_codes import ErrorCode
        from minikafka.protocol.errors import KafkaError
        from minikafka.spark_connector.offset_reader import offset_reader_for
        from minikafka.spark_connector.sink_tasks import DRIVER_TIMEOUT_MS
        from minikafka.spark_connector.task_transaction import Transaction

        if not self._options.exactly_once or self._options.app_id:
            return
        failure: KafkaError | None = None
        for task, message in enumerate(messages):
            try:
                if message is None:
                    lost = Transaction(offset_reader_for(self._options.kafka), f"{self._name}-{task}")
                    lost.begin(self._options.transaction_timeout_ms or DRIVER_TIMEOUT_MS)
                elif (found := self._transaction_of(message)) is not None:
                    found.end(commit=False)
            except KafkaError as error:
                if error.code != ErrorCode.INVALID_TXN_STATE:  # it has been committed
                    failure = error
        if failure is not None:
            raise failure

    def _transaction_of(self, message: Any) -> Any:
        if message is None or message.transactional_id is None:
            return None
        from minikafka.spark_connector.offset_reader import offset_reader_for
        from minikafka.spark_connector.task_transaction import Transaction

        transaction = Transaction(offset_reader_for(self._options.kafka), message.transactional_id)
        transaction.resume(message.producer_id, message.epoch, message.partitions)
        return transaction


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches: each task commits its own transaction, so that the driver has nothing to do."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = checked_options(given, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from minikafka.spark_connector import sink_tasks

        if not self._options.exactly_once:
            return sink_tasks.write_plainly(self._options, iterator)
        context = _context()
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if not query or batch is None:
            raise RuntimeError("Spark does not tell this task its query and micro-batch, which exactly_once requires")
        name = f"{self._options.prefix}-{query}"
        return sink_tasks.write_once(self._options, name, int(batch), context.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Nothing: the tasks have committed."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Nothing: the tasks that failed have aborted; those that were killed are fenced when Spark repeats them."""


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("write() is called outside of a Spark task")
    return context
