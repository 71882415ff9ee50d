"""The data source as Spark sees it: `format("minikafka")`. Light to import: Spark imports it in every session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from minikafka.spark_connector.range_planner import Range

NAME = "minikafka"
FIELDS = {
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
    """Reads topics of minikafka, or of any other Kafka, with the options of Spark's Kafka source."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.given = dict(options.items())

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        """The columns of Spark's Kafka source; `headers` only with includeHeaders. Raises RefusedOption."""
        from minikafka.spark_connector.options import parse

        with_headers = parse(self.given).include_headers
        return ", ".join(f"{name} {kind}" for name, kind in FIELDS.items() if name != "headers" or with_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self.given, checked_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        from minikafka.spark_connector.micro_batches import StreamReader

        return StreamReader(self.given, checked_columns(schema))


def checked_columns(schema: StructType) -> list[str]:
    """The columns of a schema, which may be a user's: any of ours, in any order. Raises ValueError for others."""
    for field in schema.fields:
        kind = FIELDS.get(field.name)
        if kind is None:
            raise ValueError(f"the minikafka source has no column '{field.name}'; it has {', '.join(FIELDS)}")
        if field.dataType.simpleString() != kind:
            raise ValueError(f"column '{field.name}' is {kind}, not {field.dataType.simpleString()}")
    return [field.name for field in schema.fields]


class RangePartition(InputPartition):
    """An input partition: a range of offsets."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(wanted)
        self.range = wanted


class BatchReader(DataSourceReader):
    """Plans on the driver, reads in the executors."""

    def __init__(self, given: Mapping[str, str], columns: Sequence[str]) -> None:
        self._given = dict(given)
        self._columns = list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """Raises RefusedOption, UnresolvedOffsets, DataLoss, KafkaError."""
        from minikafka.spark_connector.offset_reader import cluster_for
        from minikafka.spark_connector.offset_resolution import batch_ranges
        from minikafka.spark_connector.options import check_batch, parse

        options = parse(self._given)
        check_batch(options)
        return [RangePartition(one) for one in batch_ranges(cluster_for(options.kafka), options)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Without any partition Spark calls this once, with None."""
        return read_partition(self._given, self._columns, partition)


def read_partition(
    given: Mapping[str, str], columns: Sequence[str], partition: InputPartition | None
) -> Iterator[Any]:
    """The records of one input partition."""
    from minikafka.spark_connector.options import parse
    from minikafka.spark_connector.partition_reader import read

    if isinstance(partition, RangePartition):
        yield from read(parse(given), partition.range, columns)


def register(spark: SparkSession) -> None:
    """Make `format("minikafka")` known to a session that has not found it by itself."""
    spark.dataSource.register(MinikafkaDataSource)
