"""A driver for chaos tests: streams from one topic to another, and restarts a failed query from its checkpoint.

Some tasks are slow, so that Spark starts speculative attempts of them.

    python -m support.spark_copier BOOTSTRAP SOURCE TARGET DELIVERY FOLDER

FOLDER/checkpoint is the checkpoint. The driver runs until it is killed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException

from support.slow_sink import SlowSource
from support.spark_cluster import speculative_session

ROWS_A_BATCH = 60


def main(bootstrap: str, source: str, target: str, delivery: str, folder: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = speculative_session(folder)
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(SlowSource)
    options = {"kafka.bootstrap.servers": bootstrap, "kafka.request.timeout.ms": "10000"}
    while True:
        frame = spark.readStream.format("minikafka").options(**options, subscribe=source, startingOffsets="earliest")
        try:  # the first use of Python after its daemon was killed also fails
            query = (
                frame.option("maxOffsetsPerTrigger", ROWS_A_BATCH)
                .load()
                .selectExpr("value", "value key")
                .writeStream.format("minikafka")
                .options(**options, topic=target, delivery=delivery, checkpointLocation=str(folder / "checkpoint"))
                .start()
            )
            query.awaitTermination()
        except (StreamingQueryException, Py4JJavaError) as error:
            print(f"query failed, restarting: {str(error)[:1500]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], Path(sys.argv[5]))
