"""Writes with our sink have the outcome that they have with Spark's own: the same records, or a refusal as clear.

`make test-all` plays all writes to minikafka against the recorded outcomes of Spark's sink. Spark plans the data frames
and converts all rows to Arrow in one job; the writer is called as Spark calls it. `make reference` runs `df.write`
itself with both sinks, to minikafka and to Apache Kafka; with MINIKAFKA_RECORD_SINK=1 (`make sink-outcomes`) it records
anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from support import sink_outcomes as outcomes
from support.node import NodeProcess
from support.oracle import SHARED, Oracle, needs_oracle, why_absent
from support.sink_cases import ROWS_MAX, Write, writes

from minikafka.spark_connector.data_source import MinikafkaDataSource
from minikafka.spark_connector.sink import writers
from minikafka.spark_connector.sink.sink_columns import UnsuitableColumn, check_schema

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
WRITES = writes()
DELIVERIES = ["exactly_once", "at_least_once", "atomic"]
HAS_JVM_CONNECTOR = not why_absent() and (SHARED / "apache-kafka" / "spark-jars").exists()
STREAM = "exactly_once in streams"
OTHER_IN_STREAMS = "includeHeaders wrong"
"""Spark's own sink reads this option in streams only and refuses it there; ours reads it in neither (docs/spark.md)."""
STREAMED = [
    write for number, write in enumerate(WRITES)
    if number % 3 == 0 and write.mode == "append" and "kafka.max.block.ms" not in write.options
    and write.name != OTHER_IN_STREAMS
]  # fmt: skip
"""A third of the writes as streams as well: Spark's own sink does with them what it does with batches.

Without those that wait for a short time only, in which coordinators may still load.
"""
SETTINGS: dict[str, dict[str, str]] = {"open": {}, "closed": {"auto.create.topics.enable": "false"}}
Found = dict[str, outcomes.Outcome]


def played_with(delivery: str) -> list[Write]:
    """All writes with the default, a third of them with each of the others, where only the sending differs."""
    if delivery == STREAM:
        return STREAMED
    third = DELIVERIES.index(delivery)
    return [
        write for n, write in enumerate(WRITES)
        if third in (0, n % 3) or write.delivery == delivery or write.broker == "closed"
    ]  # fmt: skip


@contextmanager
def brokers(
    kind: type[NodeProcess | Oracle], folder: Path, some: Sequence[Write] = WRITES
) -> Iterator[dict[str, Any]]:
    """A broker that creates unknown topics and one that does not, with the topics of writes."""
    with kind(folder / "open") as one, kind(folder / "closed", settings=SETTINGS["closed"]) as other:
        found = {"open": one, "closed": other}
        for name, broker in found.items():
            outcomes.create_topics(broker.bootstrap, [write for write in some if write.broker == name])
        yield found


def all_outcomes(
    found: Mapping[str, Any], run: Callable[[Write, str], str], some: Sequence[Write] = WRITES
) -> Found:
    """Runs writes: `run` returns the words of a refusal. Those that are refused have records as well, left over."""
    refusals = {write.name: run(write, found[write.broker].bootstrap) for write in some}
    result: Found = {}
    for name, broker in found.items():
        folder = broker.logs if isinstance(broker, Oracle) else broker.data_dir
        result |= outcomes.written(broker.bootstrap, folder, [write for write in some if write.broker == name])
    return {
        write.name: result[write.name] | ({"refusal": refusals[write.name]} if refusals[write.name] else {})
        for write in some
    }


def check(write: Write, ours: outcomes.Outcome, theirs: outcomes.Outcome) -> None:
    """Compares an outcome of our sink with that of Spark's own."""
    words, their_words = ours.get("refusal", ""), theirs.get("refusal", "")
    if write.differs:
        assert bool(words) != bool(their_words), f"no longer different: {write.differs}"
    else:
        assert bool(words) == bool(their_words), f"ours: {words or 'written'}; Spark's: {their_words or 'written'}"
    if words:
        wanted = write.ours or re.escape(their_words.partition(": ")[2])
        assert re.search(wanted, words, re.IGNORECASE), f"ours: {words}; Spark's: {their_words}"
    elif not their_words:
        assert ours == theirs


@pytest.fixture(scope="module")
def played(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """The outcomes of all writes to minikafka, by delivery."""
    schemas = outcomes.schemas(spark, WRITES)
    suitable = [write for write in WRITES if is_suitable(write, schemas[write.name])]
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")  # compiling all expressions would take longer
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    batches = outcomes.arrow_batches(spark, suitable, schemas)
    spark.conf.unset("spark.sql.codegen.factoryMode")
    spark.conf.unset("spark.sql.codegen.wholeStage")
    found = {}
    for delivery in (*DELIVERIES, STREAM):

        def run(write: Write, bootstrap: str, delivery: str = delivery) -> str:
            given = {name.lower(): value for name, value in write.given(bootstrap).items()}
            try:
                source = MinikafkaDataSource(given | {"delivery": delivery.partition(" ")[0]})
                kind = source.streamWriter if delivery == STREAM else source.writer
                writer = kind(schemas[write.name], write.mode == "overwrite")
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(writers, "_context", lambda: outcomes.task_context(write.topic))
                    outcomes.as_spark_calls(writer, batches[write.name])
            except Exception as error:  # noqa: BLE001 (the words of any refusal are compared)
                return f"{type(error).__name__}: {error}"
            return ""

        some, folder = played_with(delivery), tmp_path_factory.mktemp(delivery)
        with brokers(NodeProcess, folder, some) as nodes:
            found[delivery] = all_outcomes(nodes, run, some)
    return found


def is_suitable(write: Write, schema: Any) -> bool:
    given = {name.lower(): value for name, value in write.given("").items()}
    try:
        check_schema(schema, given.get("topic"))
    except UnsuitableColumn:
        return False
    return True


@pytest.mark.parametrize(
    ("write", "delivery"),
    [
        pytest.param(write, delivery, id=f"{write.name}, {delivery}")
        for delivery in (*DELIVERIES, STREAM)
        for write in played_with(delivery)
        if write.delivery in ("", delivery)
    ],
)
def test_our_sink_does_what_sparks_own_does(write: Write, delivery: str, played: dict[str, Found]) -> None:
    ours = played[delivery][write.name]
    check(write, ours, outcomes.recorded()[write.name])
    if "refusal" in ours and delivery != "at_least_once":
        assert ours["records"] == [], "a refused write leaves nothing behind"


def test_there_are_eighty_writes_and_each_is_recorded() -> None:
    assert len({write.topic for write in WRITES}) == len(WRITES) >= 80
    assert outcomes.recorded().keys() == {write.name for write in WRITES}


@pytest.fixture(scope="module", params=["Apache Kafka", "minikafka"])
def live(request: pytest.FixtureRequest) -> type[NodeProcess | Oracle]:
    """The kind of the brokers."""
    return Oracle if request.param == "Apache Kafka" else NodeProcess


@pytest.mark.parametrize("source", ["kafka", "minikafka"])
@needs_oracle
@pytest.mark.skipif(not HAS_JVM_CONNECTOR, reason="no Kafka connector of Spark beside the checkout")
@pytest.mark.oracle
@pytest.mark.reference
@pytest.mark.timeout(3600)
def test_df_write_to_each_broker(spark: Any, live: type[NodeProcess | Oracle], source: str, tmp_path: Path) -> None:
    """`df.write` itself with each sink."""
    with brokers(live, tmp_path) as found:
        got = all_outcomes(found, lambda write, bootstrap: outcomes.through_spark(spark, source, write, bootstrap))
    if source == "kafka" and live is Oracle and os.environ.get("MINIKAFKA_RECORD_SINK"):
        outcomes.record(got)
    check_all(source, WRITES, got)


@pytest.mark.parametrize("source", ["kafka", "minikafka"])
@needs_oracle
@pytest.mark.skipif(not HAS_JVM_CONNECTOR, reason="no Kafka connector of Spark beside the checkout")
@pytest.mark.oracle
@pytest.mark.reference
@pytest.mark.timeout(3600)
def test_df_write_stream_to_each_broker(
    spark: Any, live: type[NodeProcess | Oracle], source: str, tmp_path: Path
) -> None:
    """`df.writeStream` itself with each sink: what is recorded of batches."""
    ids = tmp_path / "ids"
    ids.mkdir()
    (ids / "all.json").write_text("".join(f'{{"id": {number}}}\n' for number in range(ROWS_MAX)))

    def run(write: Write, bootstrap: str) -> str:
        return outcomes.through_spark(spark, source, write, bootstrap, ids)

    with brokers(live, tmp_path, STREAMED) as found:
        got = all_outcomes(found, run, STREAMED)
    check_all(source, STREAMED, got)


def check_all(source: str, some: Sequence[Write], got: Found) -> None:
    """Compares the outcomes of one sink with those that are recorded of Spark's own."""
    wrong = {}
    for write in some:
        theirs = outcomes.recorded()[write.name]
        try:
            if source == "minikafka" and write.delivery in ("", "exactly_once"):
                check(write, got[write.name], theirs)
            elif source == "kafka":
                assert bool(got[write.name].get("refusal")) == bool(theirs.get("refusal")), got[write.name]
                assert "refusal" in theirs or got[write.name] == theirs
        except AssertionError as error:
            wrong[write.name] = str(error)
    assert not wrong
