"""Spark finds this module by its name, `pyspark_…`, and with it `format("minikafka")`: nothing has to be registered.

Where it was not found (an editable install hides it from Spark's search), `register(spark)` does the same.
"""

from minikafka.spark_connector.data_source import MinikafkaDataSource, register

__all__ = ["DefaultSource", "register"]


class DefaultSource(MinikafkaDataSource):
    """What Spark looks for."""
