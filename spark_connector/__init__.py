"""A PySpark data source without a jar: `format("minikafka")` reads and writes topics, as batches and as streams.

    from minikafka.spark_connector import register
    register(spark)                     # only needed where Spark does not find the module `pyspark_minikafka`

    frame = (spark.read.format("minikafka").option("kafka.bootstrap.servers", "localhost:9092")
             .option("subscribe", "flights").load())

    frame.write.format("minikafka").mode("append").option(…, "localhost:9092").option("topic", "copies").save()

Options, columns and the JSON form of offsets are those of Spark's own Kafka source (`format("kafka")`). The source
reads from minikafka and any other Kafka cluster, by default committed records only. It is blocking code: Spark runs it
in processes that it forks, and only the protocol and parts of the client are shared with the rest of minikafka.

The path of a query. Spark creates a `MinikafkaDataSource` from the options. For a batch query, a planner process on the
driver resolves the start and end offsets and splits the ranges into input partitions; a stream does so for each
micro-batch, in a separate process. Each executor task reads one input partition: fetch responses become Arrow columns
(`minikafka.client.consumer.arrow_batches`), which Spark uses without copying.

The path of a write. Spark calls a writer of `sink/writers.py` in each task with Arrow batches. `sink/task_writer.py`
sorts their rows by partition, has them encoded (`minikafka.client.producer.arrow_encoding`) and sends the record
batches, in one transaction for each task. A micro-batch that Spark repeats is not written again: a task commits, with
its records, a marker with the number of the micro-batch, and reads it before it writes (`sink/sink_tasks.py`). Rows
that an earlier attempt has committed in tasks which no longer exist are found by their markers
(`sink/earlier_attempts.py`). With `delivery` atomic, the tasks only encode, and the driver sends all record batches in
one transaction (`sink/atomic_writes.py`).

    data_source.py  `format("minikafka")`: schema, batch queries, writers, registration with Spark
    options/        options of reads and writes, the JSON form of offsets, settings of Kafka's clients
    brokers/        a blocking client: connections, metadata, offsets
    source/         reads: offsets, input partitions, micro-batches, one range in an executor
    sink/           writes: tasks, transactions, markers, `delivery` atomic
    progress.py     `lag`: how far a stream is behind, from its progress

*Caveats*

    * OAUTHBEARER: tokens from a file, or unsecured ones, as options are texts.
    * A micro-batch becomes visible task by task, except with `delivery` atomic, where all rows pass through the driver.
      A batch write becomes visible when all tasks have succeeded, but its transactions are committed one after another:
      a driver that dies meanwhile leaves a part of them committed, except with `delivery` atomic.
    * A repeated micro-batch with other tasks than before is refused (NotRepeated).
    * Markers are offsets of consumer groups: one for each task number of a query, and one for the run that has claimed
      the query. They expire after `offsets.retention.minutes`. A query that was stopped in the middle of a micro-batch
      for longer may write the micro-batch twice, and so may a task of an older run that stalls for longer after the
      next run has begun.
    * A claim is no compare-and-set: a driver of an older run that stalls between the end of its tasks and its claim
      takes the claim from the run that was started since. The newer run then fails and must be started again.
    * `lastProgress` has the number of rows of a micro-batch only: Spark offers no other metrics to Python sinks.
    * The output mode `update` is refused by Spark for Python sinks.
    * No filter push-down: Spark 4.2 shares pushed filters among all uses of a data frame, which gives wrong rows. Limit
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
    """A public name, imported on first use. Raises AttributeError; ModuleNotFoundError without the extra `spark`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name == "register":
            from minikafka.spark_connector.data_source import register

            return register
        from minikafka.spark_connector.progress import lag

        return lag
    except ModuleNotFoundError as error:
        from minikafka.client.extras import missing_extra

        raise missing_extra(error, "spark", "minikafka.spark_connector") from error
