"""The data source `format("minikafka")`, where Spark looks for it: in top-level modules named `pyspark_…`.

Nothing has to be registered. `register(spark)` does the same where Spark cannot find the module.
"""

from minikafka.spark_connector.data_source import MinikafkaDataSource, register

__all__ = ["DefaultSource", "register"]


class DefaultSource(MinikafkaDataSource):
    """The class that Spark looks up in the module."""
