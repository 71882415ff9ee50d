"""What a sink does with the writes of `sink_cases`: the records it leaves behind, or the words of its refusal.

An outcome is JSON: `{"refusal": words}`, or `{"records": […], "codecs": […]}` with a record as suffix of the topic,
partition, key, value and headers, in the order of the partition.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql.datasource import DataSourceStreamWriter

from minikafka.protocol.records.batch import batches
from minikafka.protocol.records.compression import Codec
from support.sink_cases import ROWS_MAX, Write
from support.spark_sink import TIMEOUT_S, Read, read_topics

RECORDED = Path(__file__).resolve().parents[1] / "spark" / "sink_outcomes.json"
LONG_BYTES = 150
Outcome = dict[str, Any]


@functools.cache
def recorded() -> dict[str, Outcome]:
    """The outcomes with Spark's own sink by the names of writes."""
    found: dict[str, Outcome] = json.loads(RECORDED.read_text())
    return found


def record(outcomes: Mapping[str, Outcome]) -> None:
    """Keeps outcomes, a line for each."""
    lines = [f"{json.dumps(name)}: {json.dumps(one, sort_keys=True)}" for name, one in outcomes.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    recorded.cache_clear()


def create_topics(bootstrap: str, writes: Iterable[Write]) -> None:
    """Creates the topics of writes, all at once; some have records of long ago."""
    wanted = [
        NewTopic(write.topic + suffix, count, 1, config={"retention.ms": "-1", **write.configs})
        for write in writes
        for suffix, count in write.topics.items()
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in (admin.create_topics(wanted) if wanted else {}).values():
        future.result(TIMEOUT_S)


def through_spark(spark: Any, source: str, write: Write, bootstrap: str, ids: Path | None = None) -> str:
    """Writes with `df.write`, or if `ids` is given as `stream`. Returns the words of the refusal, or an empty text."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        if ids is None:
            frame = spark.range(0, write.rows, 1, 1).selectExpr(*map(write.filled, write.columns))
            frame.write.format(source).mode(write.mode).options(**write.given(bootstrap)).save()
        else:
            stream(spark, source, write, bootstrap, ids)
    except Py4JJavaError as error:
        return deepest(error.java_exception) + ("" if source == "kafka" else str(error))
    except PySparkException as error:
        cause = getattr(error, "_origin", None)
        return (deepest(cause) if cause is not None else str(error)) + ("" if source == "kafka" else str(error))
    return ""


def stream(spark: Any, source: str, write: Write, bootstrap: str, ids: Path) -> None:
    """Writes with `df.writeStream`, in one micro-batch. `ids` is a folder with the numbers of rows, as JSON."""
    rows = spark.readStream.schema("id long").json(str(ids)).where(f"id < {write.rows}")
    writer = rows.selectExpr(*map(write.filled, write.columns)).writeStream.format(source)
    checkpoint = str(ids.with_name(f"{ids.name}-{write.topic}"))
    writer = writer.options(**write.given(bootstrap)).option("checkpointLocation", checkpoint)
    query = writer.outputMode(write.mode).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def deepest(error: Any) -> str:
    """The class and the words of the last cause of a Java exception."""
    while (cause := error.getCause()) is not None:
        error = cause
    return f"{error.getClass().getSimpleName()}: {error.getMessage()}"


def schemas(spark: Any, writes: Iterable[Write]) -> dict[str, Any]:
    """The schema of each write by name; nothing is computed."""
    rows = spark.range(0, ROWS_MAX, 1, 1)
    return {write.name: rows.selectExpr(*map(write.filled, write.columns)).schema for write in writes}


def arrow_batches(spark: Any, writes: Sequence[Write], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of each write as Spark converts them to Arrow, by name; all in one job."""
    from pyspark.sql.functions import col, expr, struct, when

    columns = []
    for index, write in enumerate(writes):
        in_write, parts = col("id") < write.rows, [expr(write.filled(one)) for one in write.columns]
        places = [when(in_write, part).alias(f"column{place}") for place, part in enumerate(parts)]
        columns.append(struct(*places).alias(f"write{index}"))
    (batch,) = spark.range(0, ROWS_MAX, 1, 1).select(*columns).toArrow().combine_chunks().to_batches()
    found = {}
    for index, write in enumerate(writes):
        places = batch.column(index).slice(0, write.rows).flatten()
        found[write.name] = type(batch).from_arrays(places, schemas[write.name].names)
    return found


def as_spark_calls(writer: Any, batch: Any) -> None:
    """Calls a writer as Spark does for a job with one task: `write`, then `commit` or `abort`."""
    number = [0] if isinstance(writer, DataSourceStreamWriter) else []
    try:
        message = writer.write(iter([batch] if len(batch) else []))
    except Exception:
        writer.abort([None], *number)
        raise
    writer.commit([message], *number)


def task_context(query: str | None = None) -> Any:
    """What a writer sees of its task: that it is the first, and of the first micro-batch of a query."""
    properties = {"sql.streaming.queryId": query, "spark.jobGroup.id": query, "streaming.sql.batchId": "0"}
    return SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: 0, getLocalProperty=properties.get)


def written(bootstrap: str, folder: Path, writes: Sequence[Write]) -> dict[str, Outcome]:
    """The records that writes have left in their topics, by name; `folder` contains the partitions' logs."""
    suffixes = {write.name: list(write.topics) or [""] for write in writes}
    wanted = {f"{write.topic}{suffix}" for write in writes for suffix in suffixes[write.name]}
    read = read_topics(bootstrap, wanted)
    found: dict[str, Outcome] = {}
    for write in writes:
        places = [(suffix, read[write.topic + suffix]) for suffix in suffixes[write.name]]
        records = [plain(suffix, one) for suffix, some in places for one in sorted(some, key=lambda one: one.partition)]
        codecs = {codec for suffix in suffixes[write.name] for codec in codecs_of(folder, write.topic + suffix)}
        found[write.name] = {"records": records, "codecs": sorted(codecs)}
    return found


def plain(suffix: str, one: Read) -> list[Any]:
    headers = [[name, text(value)] for name, value in one.headers]
    return [suffix, one.partition, text(one.key), text(one.value), headers]


def text(data: bytes | None) -> str | None:
    """Bytes in JSON: each a character; of long ones a hash."""
    if data is None:
        return None
    if len(data) <= LONG_BYTES:
        return data.decode("latin-1")
    return f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}"


def codecs_of(folder: Path, topic: str) -> set[str]:
    """The codecs of all batches of a topic, without those of control records."""
    found = set()
    for path in folder.glob(f"{topic}-*/*.log"):
        found |= {Codec(one.attributes & 7).name.lower() for one in batches(path.read_bytes()) if not one.is_control}
    return found
