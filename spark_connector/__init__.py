"""Topics in PySpark, without a jar: `spark.read.format("minikafka")` and `spark.readStream.format("minikafka")`.

    from minikafka.spark_connector import register
    register(spark)                     # not needed where minikafka was installed from a package index

    frame = (spark.read.format("minikafka").option("kafka.bootstrap.servers", "localhost:9092")
             .option("subscribe", "flights").load())

Options, columns and the JSON of offsets are those of Spark's own Kafka source (`format("kafka")`); it reads from
minikafka and from any other Kafka. Spark sees committed records only, unless told otherwise.

The life of a query. Spark makes a `source.MinikafkaDataSource` from the options (`options`). For a batch, a planner
process of Spark's resolves where to begin and to end (`resolve`, on the wire by `cluster` and `wire`) and cuts the
ranges into input partitions (`planner`); a stream does so batch after batch in a process of its own (`stream`,
`offsets`). Executors read one range each (`reader`): whole fetch answers become Arrow columns
(`minikafka.client.consumer.arrow_batches`) that Spark takes over as they are. `lag` reads a stream's progress.

Caveats:
    * Only PLAINTEXT: no TLS and SASL yet. No sink yet: it comes with transactions.
    * No push-down of filters: Spark 4.3 shares what was pushed among all uses of a data frame, which gives wrong rows.
      Say what is wanted by offsets and times, or name the columns by `.schema(…)`.
    * An action that repeats a data frame reads the same offsets: Spark plans a data frame's batch once.
    * A re-created topic is noticed while a query runs, and after a restart when its log is shorter than it was; if it
      may have grown longer meanwhile, set `rememberTopicIds`, which puts topic ids into the checkpoint.
    * Real-time and continuous modes are not open to Python sources.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minikafka.spark_connector.data_source import register
    from minikafka.spark_connector.progress import lag

__all__ = ["lag", "register"]


def __getattr__(name: str) -> Any:
    if name == "register":
        from minikafka.spark_connector.data_source import register

        return register
    if name == "lag":
        from minikafka.spark_connector.progress import lag

        return lag
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
