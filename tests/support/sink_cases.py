"""Writes for the differential tests of the Spark sink: columns, options and topics, without expectations.

What Spark's own Kafka sink does with each is recorded beside the tests (`tests/spark/sink_outcomes.json`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

ROWS_MAX = 300
WAIT = {"kafka.max.block.ms": "300"}
"""For writes that are refused after this time."""
VALUE = "concat('v', id) value"
HEADERS = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True)
class Write:
    """A write of the rows `spark.range(rows)`; `{topic}` stands for the name of its topic.

    Attributes:
        columns: SELECT expressions of `id`.
        options: besides the address; the topic, unless it is None.
        topics: the topics to create, as suffixes of the name, with their numbers of partitions.
        configs: of these topics.
        broker: "open" creates unknown topics, "closed" does not.
        delivery: with which alone the outcome is that of Spark's sink; empty: with each.
        ours: what our sink must say (a regular expression) where the words of Spark's sink are not the measure.
        differs: why our sink does otherwise on purpose: writes what Spark's refuses, or refuses what it writes.
    """

    name: str
    columns: tuple[str, ...] = (VALUE,)
    options: Mapping[str, str | None] = field(default_factory=dict)
    rows: int = 3
    topics: Mapping[str, int] = field(default_factory=lambda: {"": 1})
    configs: Mapping[str, str] = field(default_factory=dict)
    broker: str = "open"
    mode: str = "append"
    delivery: str = ""
    ours: str = ""
    differs: str = ""

    @property
    def topic(self) -> str:
        """A name of its own: some differ in punctuation only."""
        words = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        return f"{words[:60]}-{zlib.crc32(self.name.encode()) % 10_000:04}"

    def filled(self, text: str) -> str:
        return text.replace("{topic}", self.topic)

    def given(self, bootstrap: str) -> dict[str, str]:
        """The options as the user gives them."""
        options: dict[str, str | None] = {"kafka.bootstrap.servers": bootstrap, "topic": "{topic}", **self.options}
        return {name: self.filled(value) for name, value in options.items() if value is not None}


def writes() -> list[Write]:
    """All writes, by distinct names."""
    return [*values(), *keys(), *topics(), *partitions(), *headers(), *timestamps(), *codecs(), *options(), *refusals()]


def values() -> Iterator[Write]:
    wanted = {
        "string": VALUE,
        "binary": "unhex('00ff80') value",
        "empty": "'' value",
        "unicode": "concat('größe ☃ 𝄞', id) value",
        "some null": "if(id % 2 = 0, null, concat('v', id)) value",
        "all null": "cast(null as binary) value",
        "varchar": "cast('abcdef' as varchar(4)) value",
        "large": "repeat('x', 100000) value",
        "collated": "'a' collate UTF8_LCASE value",
    }
    for kind, column in wanted.items():
        yield Write(f"value {kind}", (column,))
    for kind in (
        "null", "tinyint(1)", "smallint(1)", "int(1)", "id", "float(1)", "double(1)", "true", "current_date()",
        "current_timestamp()", "timestamp_ntz '2020-01-01'", "cast(1 as decimal(10,2))", "array('a')", "map('a', 'b')",
        "struct('a' as a)",
    ):  # fmt: skip
        yield Write(f"value of {kind}", (f"{kind} as value",))
    for unit in ("day", "month"):
        yield Write(f"value of an interval of a {unit}", (f"interval 1 {unit} as value",),
                    ours=f"value attribute unsupported type interval {unit}")  # fmt: skip
    yield Write("no value", ("'a' as key",))
    yield Write("value in capitals", ("'a' as VALUE",))
    yield Write("other columns", (VALUE, "map(1, array(2)) more", "id as offset", "1 as timestampType"))
    yield Write("many rows", rows=ROWS_MAX)
    yield Write("no rows", rows=0)
    yield Write("no rows to an unknown topic", rows=0, topics={}, broker="closed")


def keys() -> Iterator[Write]:
    three = {"": 3}
    yield Write("key string", (VALUE, "concat('key ', id) key"), rows=ROWS_MAX, topics={"": 7})
    yield Write("key binary", (VALUE, "unhex(hex(id * 1000003)) key"), rows=ROWS_MAX, topics=three)
    yield Write("key unicode", (VALUE, "concat('ß☃', id) key"), rows=40, topics=three)
    yield Write("key empty", (VALUE, "'' key"), topics=three)
    yield Write("key null", (VALUE, "cast(null as string) key"))
    yield Write("key sometimes null", (VALUE, "if(id % 2 = 0, null, 'k') key"), rows=6)
    yield Write("key and value null", ("cast(null as binary) key", "cast(null as string) value"))
    yield Write("key of int", (VALUE, "1 as key"))
    yield Write("key of null", (VALUE, "null as key"))
    yield Write("key of struct", (VALUE, "struct(id) as key"))


def topics() -> Iterator[Write]:
    column = {"topic": None}
    two = {"-a": 1, "-b": 2}
    yield Write("topic column", (VALUE, "'{topic}' topic"), column)
    yield Write("two topics", (VALUE, "concat('k', id) key", "concat('{topic}-', if(id % 3 = 0, 'a', 'b')) topic"),
                column, rows=30, topics=two)  # fmt: skip
    yield Write("topic option before column", (VALUE, "'{topic}-b' topic"), {"topic": "{topic}-a"}, topics=two)
    yield Write("topic null with option", (VALUE, "cast(null as string) topic"))
    yield Write("topic of int with option", (VALUE, "1 as topic"))
    yield Write("topic null", (VALUE, "cast(null as string) topic"), column)
    yield Write("topic sometimes null", (VALUE, "if(id = 2, null, '{topic}') topic"), column)
    yield Write("topic of binary", (VALUE, "cast('{topic}' as binary) topic"), column)
    yield Write("topic of int", (VALUE, "1 as topic"), column)
    yield Write("topic missing", options=column, topics={})
    yield Write("topic option in capitals", options={"topic": None, "TOPIC": "{topic}"})
    for what, name in {"with a space": "a b", "empty": "", "too long": "x" * 250, "of dots": ".."}.items():
        yield Write(f"topic {what}", options={"topic": name, **WAIT}, topics={},
                    ours=f"Invalid topic '{name}': a name has")  # fmt: skip
    yield Write("topic with a space in a column", (VALUE, "'a b' topic"), {"topic": None, **WAIT}, topics={},
                ours="Invalid topic 'a b': a name has")  # fmt: skip
    yield Write("topic unknown and created", topics={})
    yield Write("topic known to a broker that creates none", broker="closed")
    unknown = "Topic [a-z0-9-]+ not present in metadata after 300 ms"
    yield Write("topic unknown", options=WAIT, topics={}, broker="closed", ours=unknown)
    yield Write("topic unknown in a column", (VALUE, "'{topic}' topic"), {"topic": None, **WAIT}, topics={},
                broker="closed", ours=unknown)  # fmt: skip
    yield Write("topic unknown beside a known one", (VALUE, "if(id < 2, '{topic}', 'nowhere') topic"),
                {"topic": None, **WAIT}, broker="closed", ours=unknown)  # fmt: skip


def partitions() -> Iterator[Write]:
    three = {"": 3}
    yield Write("partition", (VALUE, "cast(id % 3 as int) partition"), rows=30, topics=three)
    yield Write("partition before key", (VALUE, "'k' key", "cast(id % 3 as int) partition"), rows=30, topics=three)
    yield Write("partition or key", (VALUE, "concat(id) key", "cast(if(id % 2 = 0, 1, null) as int) partition"),
                rows=30, topics=three)  # fmt: skip
    yield Write("partition null", (VALUE, "'k' key", "cast(null as int) partition"), topics=three)
    yield Write("partition too high", (VALUE, "3 partition"), WAIT, topics=three,
                ours="partition-too-high-[0-9]+-3 does not exist: .* has 3 partitions; see the column 'partition'")
    yield Write("partition negative", (VALUE, "-1 partition"), topics=three)
    for kind in ("smallint(1)", "bigint(1)", "'1'", "1.0", "null"):
        yield Write(f"partition of {kind}", (VALUE, f"{kind} as partition"))


def headers() -> Iterator[Write]:
    some = "array(struct('a' as key, unhex('01') as value), struct('b' as key, unhex('') as value)) headers"
    include = {"includeHeaders": "true"}
    yield Write("headers", (VALUE, some), include)
    yield Write("headers without includeHeaders", (VALUE, some))
    yield Write("headers with includeHeaders false", (VALUE, some), {"includeHeaders": "false"})
    yield Write("headers null", (VALUE, f"cast(null as {HEADERS}) headers"), include)
    yield Write("headers sometimes null", (VALUE, "if(id = 1, null, array(struct(concat('h', id) as key,"
                " cast(concat(id) as binary) as value))) headers"), include)  # fmt: skip
    yield Write("headers empty", (VALUE, f"cast(array() as {HEADERS}) headers"), include)
    yield Write("headers with a null value", (VALUE, f"cast(array(struct('a', null)) as {HEADERS}) headers"), include)
    yield Write("headers with equal keys", (VALUE, "array(struct('a' as key, unhex('01') as value),"
                " struct('a' as key, unhex('02') as value)) headers"), include)  # fmt: skip
    unicode = "array(struct('ß☃𝄞' as key, unhex('01') as value)) headers"
    yield Write("headers with unicode keys", (VALUE, unicode), include)
    yield Write("headers with empty keys", (VALUE, "array(struct('' as key, unhex('01') as value)) headers"), include)
    yield Write("headers with a null key", (VALUE, f"cast(array(struct(null, 'x')) as {HEADERS}) headers"), include,
                ours="headers: a header has no key")  # fmt: skip
    yield Write("headers with a null header", (VALUE, f"cast(array(null) as {HEADERS}) headers"), include,
                ours="headers: a header has no key")  # fmt: skip
    yield Write("headers of many sizes", (VALUE, "transform(sequence(1, int(id % 5)), i -> struct(concat('h', i)"
                " as key, if(i = 2, null, cast(repeat('x', i) as binary)) as value)) headers"),
                include, rows=20)  # fmt: skip
    yield Write("headers of a name in capitals", (VALUE, "array(struct('a' as KEY, unhex('01') as VALUE)) headers"))
    for kind in (
        "array('a')", "map('a', unhex('01'))", "array(struct('a' as key, 'b' as value))", "'a'",
        "array(struct(unhex('01') as value, 'a' as key))", "array(struct('a' as name, unhex('01') as value))",
        "struct('a' as key, unhex('01') as value)",
    ):  # fmt: skip
        yield Write(f"headers of {kind}", (VALUE, f"{kind} as headers"), include)
    yield Write("includeHeaders without headers", options=include)
    yield Write("includeHeaders wrong", options={"includeHeaders": "maybe"})


def timestamps() -> Iterator[Write]:
    """Spark 4.2 ignores the column; later versions have it, as timestamp or double."""
    for kind in (
        "timestamp '2020-01-02 03:04:05.678Z'", "cast(null as timestamp)", "1577934245.678d",
        "timestamp_ntz '2020-01-01'",
    ):  # fmt: skip
        yield Write(f"timestamp of {kind}", (VALUE, f"{kind} as timestamp"))
    for kind in ("'2020-01-01'", "1577934245678", "date '2020-01-01'"):
        yield Write(f"timestamp of {kind}", (VALUE, f"{kind} as timestamp"), ours="timestamp attribute unsupported",
                    differs="the column is not ignored")  # fmt: skip


def codecs() -> Iterator[Write]:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        yield Write(f"codec {codec}", options={"kafka.compression.type": codec}, rows=50)
    for codec in ("GZIP", "brotli", ""):
        yield Write(f"codec named '{codec}'", options={"kafka.compression.type": codec})
    for codec in ("gzip", "lz4", "zstd"):
        for level in ("1", "9", "99", "-1"):
            level_option = {f"kafka.compression.{codec}.level": level}
            yield Write(f"codec {codec} at level '{level}'", options={"kafka.compression.type": codec, **level_option})


def options() -> Iterator[Write]:
    wanted = {
        "acks": ("all", "-1", "2", "none"),
        "batch.size": ("100", "0", "-1", "x"),
        "max.request.size": ("100000", "-1", "x"),
        "request.timeout.ms": ("10000", "-1", "soon"),
        "max.block.ms": ("60000", "-1", "soon"),
        "delivery.timeout.ms": ("1000", "-1", "x"),
        "linger.ms": ("5", "-1"),
        "retries": ("0", "-1"),
        "enable.idempotence": ("true", "false", "maybe"),
        "max.in.flight.requests.per.connection": ("1", "0"),
        "client.id": ("ours",),
        "buffer.memory": ("1000000", "-1"),
        "security.protocol": ("PLAINTEXT",),
        "metadata.max.age.ms": ("1000",),
        "partitioner.ignore.keys": ("true",),
        "unknown.setting": ("1",),
        "send.buffer.bytes": ("x",),
        "reconnect.backoff.ms": ("-1",),
        "key.serializer": ("a.Serializer",),
        "value.serializer": ("a.Serializer",),
    }
    for name, texts in wanted.items():
        for text in texts:
            yield Write(f"option {name} '{text}'", options={f"kafka.{name}": text})
    quick = {"kafka.delivery.timeout.ms": "1000", "kafka.request.timeout.ms": "1000"}
    yield Write("option transactional.id", options={"kafka.transactional.id": "mine", **quick},
                ours="Kafka option 'transactional.id' is not supported: each task has one of its own")  # fmt: skip
    yield Write("option acks 1 and idempotence", options={"kafka.acks": "1", "kafka.enable.idempotence": "true"})
    yield Write("option acks 1", options={"kafka.acks": "1"}, delivery="at_least_once")
    yield Write("option acks 0", options={"kafka.acks": "0"}, ours="without acknowledgements records may be lost",
                differs="a write that may lose records is refused")  # fmt: skip
    yield Write("option security.protocol", options={"kafka.security.protocol": "NONE"},
                ours=r"kafka\(security_protocol='NONE'\): must be one of 'PLAINTEXT', 'SSL', ")  # fmt: skip
    for name in ("partitioner.class", "interceptor.classes"):
        yield Write(f"option {name} unknown", options={f"kafka.{name}": "no.such.Class"},
                    ours=f"Kafka option '{name}' is not supported: it names (a class|classes) of Java")  # fmt: skip
    round_robin = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    yield Write("option partitioner.class", options={"kafka.partitioner.class": round_robin},
                ours="choose partitions with the column 'partition'", differs="no Java class is loaded")  # fmt: skip
    yield Write("option batch.size 100 with many rows", options={"kafka.batch.size": "100"}, rows=100)
    yield Write("option names in capitals", options={"kafka.Compression.TYPE": "gzip"})
    yield Write("option that is unknown", options={"topics": "x"}, ours="has no option 'topics'; did you mean 'topic'",
                differs="an option that has no effect is a mistake")  # fmt: skip


def refusals() -> Iterator[Write]:
    wanted = {
        "missing": None, "empty": "", "without a port": "localhost", "of a bad port": "localhost:99999",
        "of an unknown host": "no-such-host.invalid:9092", "where nobody listens": "127.0.0.1:1",
    }  # fmt: skip
    for what, servers in wanted.items():
        yield Write(f"servers {what}", options={"kafka.bootstrap.servers": servers, **WAIT}, topics={},
                    ours="kafka.bootstrap.servers")  # fmt: skip
    large = ("repeat('x', 2000) value",)
    yield Write("record larger than max.request.size", large, {"kafka.max.request.size": "1000"})
    yield Write("record larger than the default", ("repeat('x', 2000000) value",), rows=1)
    narrow = {"max.message.bytes": "1000"}
    quick = {"kafka.delivery.timeout.ms": "1000", "kafka.request.timeout.ms": "1000"}
    yield Write("record larger than max.message.bytes", large, configs=narrow, rows=1, ours="max.message.bytes")
    yield Write("one record too large of many", ("repeat('x', if(id = 30, 2000, 10)) value",), quick, configs=narrow,
                rows=40, ours="a batch of 1 record with .* bytes; raise the topic's max.message.bytes")  # fmt: skip
    yield Write("batch larger than max.message.bytes", ("concat(repeat('x', 90), id) value",), quick, configs=narrow,
                rows=100,
                differs="the Java producer sends a batch that is smaller than batch.size again in vain")  # fmt: skip
    yield Write("batches for a topic of small messages", ("concat(repeat('x', 190), id) value", "concat(id) key"),
                configs={"max.message.bytes": "20000"}, rows=ROWS_MAX, topics={"": 2})  # fmt: skip
    yield Write("compacted topic without keys", configs={"cleanup.policy": "compact"}, ours="key")
    yield Write("compacted topic with keys", (VALUE, "concat('k', id) key"), configs={"cleanup.policy": "compact"})
    yield Write("mode overwrite", mode="overwrite", ours="Save mode Overwrite not allowed for Kafka. Use mode..append")
