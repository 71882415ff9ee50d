"""A driver for restart tests: stores each micro-batch in a file, and restarts a failed query from its checkpoint.

    python -m support.spark_keeper BOOTSTRAP TOPIC FOLDER

FOLDER/checkpoint is the checkpoint; FOLDER/kept/<batch id> has lines of `partition offset value`. It is written
atomically, so that a repeated batch replaces its first result. The driver runs until it is killed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

OFFSETS_PER_TRIGGER = 25


def main(bootstrap: str, topic: str, folder: Path) -> None:
    from minikafka.spark_connector import register

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2,4]").config(map=small()).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    kept = folder / "kept"
    kept.mkdir(exist_ok=True)
    while True:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        frame = spark.readStream.format("minikafka").options(**options)
        try:  # the first use of Python after its daemon was killed also fails
            query = (
                frame.option("maxOffsetsPerTrigger", OFFSETS_PER_TRIGGER)
                .load()
                .writeStream.foreachBatch(lambda batch, number: keep(kept, batch, number))
                .option("checkpointLocation", str(folder / "checkpoint"))
                .start()
            )
            query.awaitTermination()
        except (StreamingQueryException, Py4JJavaError) as error:
            print(f"query failed, restarting: {str(error)[:500]}", file=sys.stderr, flush=True)


def small() -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "700m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Xss4m",
    }


def keep(kept: Path, batch: Any, number: int) -> None:
    """Stores the result of batch `number`, replacing an earlier one."""
    rows = batch.select("partition", "offset", "value").collect()
    lines = [f"{row.partition} {row.offset} {bytes(row.value).decode()}\n" for row in rows]
    draft = kept.with_name(f"draft-{number}")
    draft.write_text("".join(lines))
    draft.rename(kept / str(number))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
