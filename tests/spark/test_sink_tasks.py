"""The tasks of the sink without Spark: each record is written once, whatever is repeated, fenced or interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.node import NodeProcess  # noqa: E402
from support.spark_brokers import create, grow  # noqa: E402
from support.spark_sink import Breaking, numbers, options, read_committed, rows  # noqa: E402

from minikafka.client.producer.partitioner import partition_for_key  # noqa: E402
from minikafka.protocol.errors import KafkaError  # noqa: E402
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsRequest  # noqa: E402
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest  # noqa: E402
from minikafka.spark_connector.brokers import sockets  # noqa: E402
from minikafka.spark_connector.brokers.offset_reader import OffsetReader  # noqa: E402
from minikafka.spark_connector.options.sink_options import parse_sink  # noqa: E402
from minikafka.spark_connector.sink.earlier_attempts import Write  # noqa: E402
from minikafka.spark_connector.sink.replay_check import NotRepeated  # noqa: E402
from minikafka.spark_connector.sink.sink_columns import UnsuitableColumn  # noqa: E402
from minikafka.spark_connector.sink.sink_tasks import write_for_driver, write_once, write_plainly  # noqa: E402

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]


def topic(node: NodeProcess, name: str, partitions: int = 2) -> str:
    create(node.bootstrap, {name: partitions})
    return name


def test_keys_headers_timestamps_and_partitions_are_written(node: NodeProcess) -> None:
    name = topic(node, "columns", 3)
    keys, places = [None, b"", b"key", None], [2, None, None, 1]
    headers = [None, [], [{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None]
    moment = 1_700_000_000_123
    times = pa.array([moment * 1000, None, moment * 1000 + 1, 0], pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_pydict({
        "value": ["zero", None, "two", ""], "key": keys, "headers": headers, "timestamp": times,
        "partition": pa.array(places, pa.int32()), "unknown": [1, 2, 3, 4],
    })  # fmt: skip
    before = sockets.now_ms()
    assert write_once(options(node, name), Write("columns", 0), 0, iter([batch])).rows == 4
    found = {(one.value, one.partition): one for one in read_committed(node.bootstrap, name)}
    wanted = [(b"zero", 2), (None, partition_for_key(b"", 3)), (b"two", partition_for_key(b"key", 3)), (b"", 1)]
    assert set(found) == set(wanted)
    assert [found[one].key for one in wanted] == keys
    assert [found[one].headers for one in wanted] == [(), (), (("a", b"1"), ("b", None)), ()]
    assert [found[one].timestamp for one in wanted[::2]] == [moment, moment]
    assert found[wanted[3]].timestamp == 0
    assert found[wanted[1]].timestamp >= before


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_many_batches_to_many_partitions(node: NodeProcess, codec: str) -> None:
    name = topic(node, f"many-{codec}", 5)
    chosen = options(node, name, **{"kafka.compression.type": codec, "kafka.batch.size": "2000"})
    ranges = [range(first, first + 1000) for first in range(0, 3000, 1000)]
    keys = [b"%d" % (number % 97) for number in range(1000)]
    assert write_plainly(chosen, rows(*ranges, key=keys)).rows == 3000
    found = read_committed(node.bootstrap, name)
    assert numbers(found) == list(range(3000))
    assert all(one.partition == partition_for_key(one.key or b"", 5) for one in found)


@pytest.mark.parametrize("exactly_once", [True, False])
@pytest.mark.parametrize("age_ms", ["0", "300000"])
def test_partitions_that_a_topic_gets_are_used_by_the_next_task_or_after_the_age_of_metadata(
    node: NodeProcess, exactly_once: bool, age_ms: str
) -> None:
    """The tasks run in the same process, as Spark reuses it."""
    name = topic(node, f"grown-{age_ms}-{exactly_once}", 1)
    chosen = options(node, name, **{"kafka.metadata.max.age.ms": age_ms})
    keys = [b"%d" % number for number in range(20)]

    def growing() -> Iterator[pa.RecordBatch]:
        yield from rows(range(20), key=keys)
        grow(node.bootstrap, name, 5)
        yield from rows(range(20, 40), key=keys)

    if exactly_once:
        write_once(chosen, Write(name, 0), 0, growing())
    else:
        write_plainly(chosen, growing())
    write_plainly(chosen, rows(range(40, 60), key=keys))
    for one in read_committed(node.bootstrap, name):
        value, count = int(one.value or b""), 1
        if value >= (20 if age_ms == "0" else 40):
            count = 5
        assert one.partition == partition_for_key(one.key or b"", count), value


def test_a_repeated_task_writes_nothing(node: NodeProcess) -> None:
    name = topic(node, "repeated")
    chosen = options(node, name)
    assert not write_once(chosen, Write(name, 0), 0, rows(range(10), range(10, 20))).skipped
    assert write_once(chosen, Write(name, 0), 0, rows(range(5, 20), range(5))).skipped
    assert not write_once(chosen, Write(name, 1), 0, rows(range(20, 30))).skipped
    assert write_once(chosen, Write(name, 0), 0, rows(range(20))).skipped, "a zombie of the batch before"
    assert not write_once(chosen, Write(name, 1), 1, rows(range(30, 40))).skipped, "another task"
    assert numbers(read_committed(node.bootstrap, name)) == list(range(40))


@pytest.mark.parametrize(
    ("again", "check", "refused"),
    [
        ([range(10)], "content", False),
        ([range(9)], "content", True),
        ([range(1, 11)], "content", True),
        ([range(1, 11)], "rows", False),
        ([range(9)], "rows", True),
        ([range(9)], "none", False),
        ([], "content", True),
        ([], "none", False),
    ],
)
def test_rows_that_moved_between_tasks_are_refused(
    node: NodeProcess, again: list[range], check: str, refused: bool
) -> None:
    name = topic(node, f"moved-{check}-{sum(map(len, again))}-{refused}-{again[0].start if again else ''}")
    chosen = options(node, name, replayCheck=check)
    write_once(chosen, Write(name, 7), 3, rows(range(10)))
    if refused:
        with pytest.raises(NotRepeated, match=f"task 3 of {name} has committed micro-batch 7 before.*replayCheck"):
            write_once(chosen, Write(name, 7), 3, rows(*again))
    else:
        write_once(chosen, Write(name, 7), 3, rows(*again))
    assert numbers(read_committed(node.bootstrap, name)) == list(range(10))


def test_a_task_without_rows_waits_for_the_end_of_the_transaction_before(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first marker is not listed while the markers of its transaction are being written, here and in Kafka."""
    name = topic(node, "ending")
    chosen = options(node, name)
    write_once(chosen, Write(name, 7), 3, rows(range(10)))
    usual, asked = OffsetReader.request, 0

    def still_ending(reader: OffsetReader, request: Any, *arguments: Any, **more: Any) -> Any:
        nonlocal asked
        response = usual(reader, request, *arguments, **more)
        if isinstance(request, DescribeTransactionsRequest):
            asked += 1
            response.transaction_states[0].transaction_state = "PrepareCommit" if asked < 3 else "CompleteCommit"
        elif isinstance(request, OffsetFetchRequest) and asked < 3:
            response.groups[0].topics = []
        return response

    monkeypatch.setattr(OffsetReader, "request", still_ending)
    with pytest.raises(NotRepeated, match="has 0 instead of 10 rows"):
        write_once(chosen, Write(name, 7), 3, rows())
    assert asked == 3
    assert write_once(chosen, Write(name, 7), 4, rows()).rows == 0, "a task that nobody has begun"


class Interrupted(Exception):
    """Raised in the middle of a task."""


def test_a_task_that_fails_leaves_nothing_and_can_be_repeated(node: NodeProcess) -> None:
    name = topic(node, "interrupted")

    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows(range(10))
        raise Interrupted

    with pytest.raises(Interrupted):
        write_once(options(node, name), Write(name, 0), 0, failing())
    assert numbers(read_committed(node.bootstrap, name)) == []
    write_once(options(node, name), Write(name, 0), 0, rows(range(10)))
    assert numbers(read_committed(node.bootstrap, name)) == list(range(10))


def test_a_zombie_is_fenced(node: NodeProcess) -> None:
    """The attempt that Spark repeats while the old one still writes: only one of the two commits."""
    name = topic(node, "zombie")

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from rows(range(10))
        write_once(options(node, name), Write(name, 0), 0, rows(range(10), range(10, 20)))
        yield from rows(range(10, 20))

    with pytest.raises(KafkaError):
        write_once(options(node, name), Write(name, 0), 0, overtaken())
    assert numbers(read_committed(node.bootstrap, name)) == list(range(20))


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["sent", "answer"])
def test_each_lost_request_is_repeated(node: NodeProcess, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    """The connection breaks at each request in turn, before the broker has it or before its answer is there."""
    name = topic(node, f"lost-{lost}")
    chosen = options(node, name)
    breaking = Breaking(monkeypatch, lost)
    version = 0
    while version == 0 or breaking.count >= breaking.at:
        breaking.start(version + 1)
        first = version * 4
        write_once(chosen, Write(name, version), 0, rows(range(first, first + 2), range(first + 2, first + 4)))
        version += 1
    assert version > 6
    assert numbers(read_committed(node.bootstrap, name)) == list(range(version * 4))


def test_what_waits_for_the_driver_is_not_visible(node: NodeProcess) -> None:
    name = topic(node, "waits")
    result = write_for_driver(options(node, name), Write("waits", -1), 0, rows(range(10)))
    assert result.transactional_id == "waits-0"
    assert result.rows == 10
    assert read_committed(node.bootstrap, name) == []
    assert write_for_driver(options(node, name), Write("waits", -1), 1, rows()).transactional_id is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"partition": [None, 7, 8]},
         "refused-7 does not exist: topic refused has 2 partitions; see the column 'partition': {row}"),
        ({"partition": [0, -2, -1]},
         r"Invalid partition: -2. Partition number should always be non-negative or null. Column 'partition', topic"
         r" refused: {row}.$"),
        ({"headers": [[], [{"key": None, "value": b""}], []]}, r"headers: a header has no key: .*; refused-0: {row}$"),
        ({"value": ["", bytes(2 << 20), ""]},
         r"refused-0: The message is 20972\d\d bytes when serialized .*kafka.max.request.size. The message: {row}.$"),
        ({"topic": ["refused", None, None]}, r"a null topic. Use the `topic` option .*topic. Column 'topic': {row}.$"),
    ],
)
@pytest.mark.parametrize(
    ("keys", "row"),
    [
        (None, "row 5 of the task, without a key"),
        ([b"x", None, b"y"], "row 5 of the task, without a key"),
        ([b"z", b"some key", b"z"], "row 5 of the task, with the key b'some key'"),
        ([b"z", bytes(50), None], r"row 5 of the task, with the key b'(\\x00){{40}}' … of 50 bytes"),
    ],
)
def test_values_that_cannot_be_written_are_named(
    node: NodeProcess, columns: dict[str, Any], message: str, keys: list[bytes | None] | None, row: str
) -> None:
    """The second row of the second batch, also where it is not the second of its partition."""
    if "refused" not in _created:
        _created.add(topic(node, "refused"))
    some: dict[str, Any] = {"value": [b"1", b"2", b"3"], "partition": [1, 0, 1]}
    some |= columns if keys is None else {**columns, "key": pa.array(keys, pa.binary())}
    kinds = {"partition": pa.int32(), "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))}
    made = {name: pa.array(column, kinds.get(name)) for name, column in some.items()}
    given = {"kafka.bootstrap.servers": node.bootstrap, **({} if "topic" in columns else {"topic": "refused"})}
    before = {"topic": ["refused"] * 3} if "topic" in columns else {}
    batches = [*rows(range(3), **before), pa.RecordBatch.from_pydict(made)]
    with pytest.raises(UnsuitableColumn, match=message.format(row=row.format())):
        write_once(parse_sink(given), Write("refused", 0), 0, iter(batches))


_created: set[str] = set()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_batches_that_a_topic_refuses_are_cut(node: NodeProcess, codec: str) -> None:
    """Also while later batches are in flight, which are refused for their sequence numbers."""
    name = f"small-{codec}"
    create(node.bootstrap, {name: 2}, **{"max.message.bytes": "600"})
    chosen = options(node, name, **{"kafka.compression.type": codec, "kafka.batch.size": "4000"})
    ranges = [range(first, first + 500) for first in range(0, 3000, 500)]
    for version in (0, 1):
        assert write_once(chosen, Write(name, 0), 0, rows(*ranges)).skipped == (version == 1)
    assert numbers(read_committed(node.bootstrap, name)) == list(range(3000))


def test_a_record_that_a_topic_refuses_is_named(node: NodeProcess) -> None:
    create(node.bootstrap, {"narrow": 1}, **{"max.message.bytes": "1000"})
    words = r"narrow-0: .*a batch of 1 record .*raise the topic's max.message.bytes. .* key b'k{40}' … of 1,000 bytes"
    with pytest.raises(KafkaError, match=words):
        write_once(options(node, "narrow"), Write("narrow", 0), 0, rows(range(100), key=[*[b"key"] * 99, b"k" * 1000]))
