"""Frames become record batches that the plain codec and Kafka's own tools read: no Spark, no broker for most of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")
pytest.importorskip("pyspark")

from support.node import NodeProcess  # noqa: E402
from support.oracle import needs_oracle, tool  # noqa: E402
from support.record_shapes import blobs  # noqa: E402
from support.spark_brokers import create  # noqa: E402
from support.spark_sink import options, rows  # noqa: E402

from minikafka.client.producer.partitioner import partition_for_key  # noqa: E402
from minikafka.protocol.names import TopicPartition  # noqa: E402
from minikafka.protocol.records.batch import parse_header  # noqa: E402
from minikafka.protocol.records.compression import Codec  # noqa: E402
from minikafka.spark_connector.brokers import sockets  # noqa: E402
from minikafka.spark_connector.options.sink_options import parse_sink  # noqa: E402
from minikafka.spark_connector.sink.batch_sender import Outgoing  # noqa: E402
from minikafka.spark_connector.sink.earlier_attempts import Write  # noqa: E402
from minikafka.spark_connector.sink.replay_check import Content  # noqa: E402
from minikafka.spark_connector.sink.sink_columns import rows_of, sort_rows  # noqa: E402
from minikafka.spark_connector.sink.sink_tasks import write_once  # noqa: E402
from minikafka.spark_connector.sink.task_writer import TaskWriter  # noqa: E402

NOW_MS = 1_700_000_000_123
COUNTS = {"one": 1, "three": 3}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
pytestmark = pytest.mark.spark
Row = dict[str, Any]

headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
shapes = st.fixed_dictionaries({
    "topic": st.sampled_from(list(COUNTS)), "key": blobs, "value": blobs, "headers": st.none() | headers,
    "timestamp": st.none() | st.integers(0, 4_000_000_000_000_000), "partition": st.none() | st.integers(0, 2),
})  # fmt: skip
kinds = st.fixed_dictionaries({
    "key": st.sampled_from([pa.binary(), pa.large_binary(), pa.string(), pa.large_string()]),
    "value": st.sampled_from([pa.binary(), pa.large_binary(), pa.string(), pa.large_string()]),
    "timestamp": st.sampled_from([pa.timestamp("us", tz="UTC"), pa.timestamp("us")]),
    "headers": st.just(pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    "partition": st.just(pa.int32()), "topic": st.just(pa.string()),
})  # fmt: skip


class Kept:
    """A producer and a sender that keeps all batches."""

    transactional_id, producer_id, epoch = "task", 7, 2
    batch_bytes_max = sys.maxsize

    def __init__(self) -> None:
        self.batches: dict[TopicPartition, list[bytes]] = {}

    def add(self, partitions: Any) -> None:
        """Nothing."""

    def send(self, batches: Sequence[Outgoing]) -> None:
        for one in batches:
            self.batches.setdefault(one.tp, []).append(one.data)

    def flush(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def settled(row: Row, columns: set[str], kinds_of: dict[str, Any]) -> Row:
    """A row that the columns can hold, and whose partition is certain."""
    row = {name: value if name in columns else None for name, value in row.items()} | {"value": row["value"]}
    for name in ("key", "value"):
        if row[name] is not None and kinds_of[name] in (pa.string(), pa.large_string()):
            row[name] = row[name].hex().encode()
    row["topic"] = row["topic"] or "one"
    if row["topic"] == "one" or (row["key"] is None and row["partition"] is None):
        row["topic"] = "one" if "topic" in columns or row["topic"] == "one" else row["topic"]
        row["partition"] = row["partition"] and 0
    return row


def place(row: Row) -> TopicPartition:
    count = COUNTS[row["topic"]]
    if row["partition"] is not None:
        return TopicPartition(row["topic"], row["partition"])
    return TopicPartition(row["topic"], 0 if row["key"] is None else partition_for_key(row["key"], count))


def expected(row: Row) -> tuple[Any, ...]:
    timestamp = NOW_MS if row["timestamp"] is None else row["timestamp"] // 1000
    return timestamp, row["key"], row["value"], tuple(row["headers"] or ())


def arrow(some: Sequence[Row], columns: set[str], kinds_of: dict[str, Any]) -> pa.RecordBatch:
    """A batch with these columns and a part of another before it, as a slice has."""
    arrays = {}
    for name in sorted(columns):
        values = [row[name] for row in some]
        if name == "headers":
            values = [one and [{"key": key, "value": value} for key, value in one] for one in values]
        if kinds_of[name] in (pa.string(), pa.large_string()) and name != "topic":
            values = [one and one.decode() if one is not None else None for one in values]
        arrays[name] = pa.array([values[0], *values], kinds_of[name])
    return pa.RecordBatch.from_pydict(arrays).slice(1)


@pytest.mark.slow
@given(
    drawn=st.lists(st.lists(shapes, min_size=1, max_size=12), min_size=1, max_size=3),
    optional=st.sets(st.sampled_from(["topic", "key", "headers", "timestamp", "partition"])),
    kinds_of=kinds,
    codec=st.sampled_from(CODECS),
    batch_bytes=st.integers(1, 3000),
)
def test_frames_are_what_the_plain_codec_reads(
    drawn: list[list[Row]], optional: set[str], kinds_of: dict[str, Any], codec: str, batch_bytes: int
) -> None:
    columns = optional | {"value"}
    frames = [[settled(row, columns, kinds_of) for row in some] for some in drawn]
    given_options = {"kafka.compression.type": codec, "kafka.batch.size": str(batch_bytes)}
    if "topic" not in columns:
        given_options["topic"] = "one"
    chosen = parse_sink({"kafka.bootstrap.servers": "localhost:1", **given_options})
    topics = {name: SimpleNamespace(partitions=range(count)) for name, count in COUNTS.items()}
    kept = Kept()
    known = cast(Any, SimpleNamespace(metadata=SimpleNamespace(topics=topics), refresh=lambda names: None))
    writer = TaskWriter(known, chosen, kept, kept, fingerprint=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sockets, "now_ms", lambda: NOW_MS)
        writer.write(arrow(some, columns, kinds_of) for some in frames)
    wanted: dict[TopicPartition, list[Any]] = {}
    for row in (row for some in frames for row in some):
        wanted.setdefault(place(row), []).append(expected(row))
    found = {}
    for tp, batches in kept.batches.items():
        found[tp] = decoded(batches, codec)
    assert found == wanted


def decoded(batches: Sequence[bytes], codec: str) -> list[Any]:
    """The records by the plain codec; checks the header of each batch."""
    found: list[Any] = []
    for data in batches:
        batch = parse_header(data)
        batch.check_crc()
        assert (batch.producer_id, batch.producer_epoch, batch.is_transactional) == (7, 2, True)
        assert (batch.base_sequence, batch.codec) == (len(found), Codec[codec.upper()])
        found += [(one.timestamp, one.key, one.value, tuple(one.headers)) for one in batch.records()]
    return found


def test_fingerprints_are_those_of_the_markers_that_there_are() -> None:
    """A newer version may repeat the micro-batch of an older one."""
    keys = pa.array([None, b"", b"k", b"key" * 9], pa.large_binary())
    values = pa.array([b"\xff" * 300, None, b"", b"value"], pa.large_binary())
    found = []
    for some in ((keys, values), (None, values), (keys.slice(1), values.slice(1)), (None, values.slice(0, 0))):
        content = Content()
        content.add(*some)
        found.append((content.rows, content.fingerprint))
    assert found == [(4, 0xBFE107141FA6DDFC), (4, 0xC38688BF178280D5), (3, 0x36F617CE6E3F3D73), (0, 0)]


def test_rows_are_sorted_by_their_partitions_however_many_there_are() -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"a", b"b", b"c", b"d", b"e"]})
    for most in (3, 1 << 16):
        places = np.array([most, 1, most - 1, 1, 0])
        some = sort_rows(rows_of(batch, "one", NOW_MS), places)
        assert some.records.values.to_pylist() == [b"e", b"b", b"d", b"c", b"a"]
        assert [(tp.partition, first) for tp, first in some.places] == [(0, 0), (1, 1), (most - 1, 3), (most, 4)]


@needs_oracle
@pytest.mark.timeout(300)
@pytest.mark.oracle
@pytest.mark.slow
def test_kafkas_tools_read_what_was_written(node: NodeProcess) -> None:
    """`kafka-dump-log` reads the segments, and the JVM's consumer the committed records."""
    create(node.bootstrap, {"for-java": len(CODECS)}, **{"retention.ms": "-1"})
    moment = pa.array([1_700_000_000_000_000] * 20, pa.timestamp("us", tz="UTC"))
    more = [None, [], [{"key": "größe", "value": b"1"}], [{"key": "a", "value": None}, {"key": "a", "value": b""}]] * 5
    for partition, codec in enumerate(CODECS):
        chosen = options(node, "for-java", **{"kafka.compression.type": codec, "kafka.batch.size": "600"})
        places = {"partition": pa.array([partition] * 20, pa.int32()), "timestamp": moment, "headers": more}
        numbers = range(partition * 20, partition * 20 + 20)
        write_once(chosen, Write(f"java-{codec}", 0), 0, rows(numbers, key=["k", None, "", "ü"] * 5, **places))
    read = tool(
        "console-consumer", "--bootstrap-server", node.bootstrap, "--topic", "for-java", "--from-beginning",
        "--max-messages", 100, "--timeout-ms", 60_000, "--isolation-level", "read_committed",
        "--formatter-property", "print.key=true", "--formatter-property", "print.headers=true",
        "--formatter-property", "print.timestamp=true",
    )  # fmt: skip
    lines = read.splitlines()  # also the transactions are complete now
    assert sorted(int(line.rpartition("\t")[2]) for line in lines) == list(range(100))
    assert all(line.startswith("CreateTime:1700000000000\t") for line in lines)
    assert len([line for line in lines if "\tgröße:1\t" in line]) == 25
    files = sorted(node.data_dir.glob("for-java-*/*.log"))  # the end of a transaction is years younger: a segment more
    dumped = tool("dump-log", "--files", ",".join(map(str, files)), "--print-data-log")
    assert re.findall(r"payload: (\d+)$", dumped, re.MULTILINE) == [str(number) for number in range(100)]
    assert dumped.count("endTxnMarker: COMMIT") == len(CODECS)
    assert "isvalid: false" not in dumped
    for codec in CODECS:
        assert f"compresscodec: {codec}" in dumped
