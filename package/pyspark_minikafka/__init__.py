"""The data source `format("minikafka")` for Spark's discovery, which searches top-level modules named `pyspark_…`.

No registration is needed. `register(spark)` does the same if Spark cannot find the module.
"""

from minikafka.spark_connector.data_source import MinikafkaDataSource, register

__all__ = ["DefaultSource", "register"]


class DefaultSource(MinikafkaDataSource):
    """The class that Spark searches for in the module."""
