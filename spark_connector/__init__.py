"""A PySpark data source without a jar: `spark.read.format("minikafka")` and `spark.readStream.format("minikafka")`.

    from minikafka.spark_connector import register
    register(spark)                     # only needed where Spark does not find the module `pyspark_minikafka`

    frame = (spark.read.format("minikafka").option("kafka.bootstrap.servers", "localhost:9092")
             .option("subscribe", "flights").load())

Options, columns and the JSON form of offsets are those of Spark's own Kafka source (`format("kafka")`). The source
reads from minikafka and any other Kafka cluster, by default committed records only. It is blocking code: Spark runs it
in processes that it forks, and only the protocol and parts of the client are shared with the rest of minikafka.

The path of a query. Spark creates a `MinikafkaDataSource` from the options. For a batch query, a planner process on the
driver resolves the start and end offsets and splits the ranges into input partitions; a stream does so for each
micro-batch, in a separate process. Each executor task reads one input partition: fetch responses become Arrow columns
(`minikafka.client.consumer.arrow_batches`), which Spark uses without copying.

    data_source.py        `format("minikafka")`: schema, batch queries, registration with Spark
    options.py            parses and validates all options
    offset_resolution.py  options to partitions and offsets: subscriptions, starting and ending offsets, timestamps
    range_planner.py      ranges of offsets to input partitions: minPartitions, maxRecordsPerPartition
    micro_batches.py      streams: start and end of each micro-batch, re-created topics, commitOffsets
    rate_limits.py        maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay
    offsets.py            the JSON form of offsets, in options and checkpoints
    input_partitions.py   the work that the driver sends to an executor task
    partition_reader.py   reads one range in an executor: fetch requests, read_committed, retries
    offset_reader.py      metadata, log start and end offsets, offsets by timestamp, offset commits; with retries
    sockets.py            a blocking connection to one broker; clocks
    data_loss.py          failOnDataLoss: the error or the warning
    progress.py           `lag`: how far a stream is behind, from its progress

*Caveats*

    * Only PLAINTEXT: no TLS and no SASL yet. No sink yet: it comes with transactions.
    * No filter push-down: Spark 4.3 shares pushed filters among all uses of a data frame, which gives wrong rows. Limit
      a query by offsets and timestamps, and its columns by `.schema(…)`.
    * Repeated actions on a data frame read the same offsets: Spark plans the batch of a data frame once.
    * A re-created topic is detected while a query runs, and after a restart if its log is shorter than before. If it
      may have grown longer meanwhile, set `rememberTopicIds`, which stores topic ids in the checkpoint.
    * Real-time and continuous processing are not available to Python data sources.
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
