"""The data source `format("minikafka")` for Spark's discovery, which searches top-level modules named `pyspark_…`.

No registration is needed. `register(spark)` does the same if Spark cannot find the module.
"""

try:
    from minikafka.spark_connector.data_source import MinikafkaDataSource, register
except ModuleNotFoundError as error:
    from minikafka.client.extras import missing_extra

    raise missing_extra(error, "spark", "pyspark_minikafka") from error

__all__ = ["DefaultSource", "register"]


class DefaultSource(MinikafkaDataSource):
    """The class that Spark searches for in the module."""
