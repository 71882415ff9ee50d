"""The Spark data source `format("minikafka")`: its schema, its batch reader, its writers and its registration.

Spark imports this module in every session, so the modules that do the work are imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from minikafka.client.extras import missing_extra
from minikafka.spark_connector.source.input_partitions import RangePartition, read_partition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAME = "minikafka"
COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}


class MinikafkaDataSource(DataSource):
    """Reads and writes topics of minikafka or any other Kafka cluster, with the options of Spark's Kafka source."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Raises ModuleNotFoundError without pyarrow, which workers need: without a word they would end there."""
        super().__init__(options)
        if find_spec("pyarrow") is None:
            raise missing_extra(ModuleNotFoundError(name="pyarrow"), "spark", f'format("{NAME}")')
        self._given = dict(options.items())

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        """Returns the columns of Spark's Kafka source; `headers` only with includeHeaders. Raises RefusedOption."""
        from minikafka.spark_connector.options.source_options import parse

        with_headers = parse(self._given).include_headers
        return ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items() if name != "headers" or with_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self._given, checked_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        from minikafka.spark_connector.source.micro_batches import StreamReader

        return StreamReader(self._given, checked_columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Returns the writer of a batch. Raises ValueError for mode("overwrite"), RefusedOption, UnsuitableColumn."""
        from minikafka.spark_connector.sink.writers import BatchWriter

        if overwrite:
            raise ValueError('Save mode Overwrite not allowed for Kafka. Use mode("append")')
        return BatchWriter(self._given, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        """Returns the writer of a stream. The output mode `complete` (`overwrite`) appends, as with Spark's sink.

        Raises RefusedOption, UnsuitableColumn.
        """
        from minikafka.spark_connector.sink.writers import StreamWriter

        return StreamWriter(self._given, schema)


def checked_columns(schema: StructType) -> list[str]:
    """Returns the column names of a schema, which may be the user's: any of `COLUMNS` in any order.

    Raises ValueError for unknown columns and wrong types.
    """
    for field in schema.fields:
        kind = COLUMNS.get(field.name)
        if kind is None:
            raise ValueError(f"the minikafka source has no column '{field.name}'; it has {', '.join(COLUMNS)}")
        if field.dataType.simpleString() != kind:
            raise ValueError(f"column '{field.name}' is {kind}, not {field.dataType.simpleString()}")
    return [field.name for field in schema.fields]


class BatchReader(DataSourceReader):
    """Reads a batch query: plans on the driver, reads in the executors."""

    def __init__(self, given: Mapping[str, str], columns: Sequence[str]) -> None:
        self._given = dict(given)
        self._columns = list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """Plans the input partitions of the query. Raises RefusedOption, UnresolvedOffsets, DataLoss, KafkaError."""
        from minikafka.spark_connector.brokers.offset_reader import offset_reader_for
        from minikafka.spark_connector.options.source_options import check_batch, parse
        from minikafka.spark_connector.source.offset_resolution import batch_ranges

        options = parse(self._given)
        check_batch(options)
        return [RangePartition(one) for one in batch_ranges(offset_reader_for(options.kafka), options)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Reads one input partition in an executor; Spark passes None if there are no partitions."""
        return read_partition(self._given, self._columns, partition)


def register(spark: SparkSession) -> None:
    """Registers `format("minikafka")` with a session that did not discover it."""
    spark.dataSource.register(MinikafkaDataSource)
