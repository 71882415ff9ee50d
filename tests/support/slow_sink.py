"""The Spark sink with tasks that are slow in their first attempt, after their first rows are sent: for speculation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from minikafka.spark_connector.data_source import MinikafkaDataSource
from minikafka.spark_connector.sink.writers import StreamWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SLOW_S = 4.0
EVERY = 5
"""In which micro-batches, by their number, a task is slow."""


class SlowSource(MinikafkaDataSource):
    """`format("minikafka")` whose stream writer is slow at times."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        return SlowWriter(self._given, schema)


class SlowWriter(StreamWriter):
    """Writes as `StreamWriter`; the first attempt of one task of some micro-batches is slow, in its transaction."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(_slowly(iterator) if _is_slow() else iterator)


def _is_slow() -> bool:
    context = TaskContext.get()
    assert context is not None
    number = int(context.getLocalProperty("streaming.sql.batchId") or 0)
    return context.attemptNumber() == 0 and number % EVERY == 0 and context.partitionId() == number // EVERY % 3


def _slowly(iterator: Iterator[Any]) -> Iterator[Any]:
    for batch in iterator:
        middle = len(batch) // 2
        yield batch.slice(0, middle)
        time.sleep(SLOW_S)
        yield batch.slice(middle)
