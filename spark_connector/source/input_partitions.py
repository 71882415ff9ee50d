"""Input partitions: the units of work that the driver plans and executors read. Imports only what pickling requires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from minikafka.spark_connector.source.range_planner import Range


class RangePartition(InputPartition):
    """An input partition: a range of offsets of one topic partition."""

    def __init__(self, planned: Range) -> None:
        super().__init__(planned)
        self.range = planned


def read_partition(
    given_options: Mapping[str, str], columns: Sequence[str], partition: InputPartition | None
) -> Iterator[Any]:
    """Yields the records of one input partition as Arrow record batches.

    Args:
        given_options: the query's options, unparsed.
        partition: None in a plan without partitions, for which Spark calls `read` once.
    """
    from minikafka.spark_connector.options.source_options import parse
    from minikafka.spark_connector.source.partition_reader import read

    if isinstance(partition, RangePartition):
        yield from read(parse(given_options), partition.range, columns)
