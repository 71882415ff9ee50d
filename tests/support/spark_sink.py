"""For the tests of the Spark sink: tasks without Spark, connections that break, and what a foreign client reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import confluent_kafka

from minikafka.protocol.errors import NetworkError
from minikafka.spark_connector.brokers import sockets
from support.ended_transactions import wait_for_decided

if TYPE_CHECKING:
    import pyarrow as pa
    import pytest

    from minikafka.spark_connector.options.sink_options import SinkOptions
    from support.node import ServerProcess

TIMEOUT_S = 60


def options(server: ServerProcess, topic: str, **more: str) -> SinkOptions:
    """The options of a task that writes to a topic."""
    from minikafka.spark_connector.options.sink_options import parse_sink

    return parse_sink({"kafka.bootstrap.servers": server.bootstrap, "topic": topic, **more})


def rows(*ranges: range, **columns: Any) -> Iterator[pa.RecordBatch]:
    """A batch for each range, with its numbers as values."""
    import pyarrow as pa

    for some in ranges:
        yield pa.RecordBatch.from_pydict({"value": [b"%d" % number for number in some], **columns})


class Breaking:
    """Breaks the connection at the request with a given number, before it is sent or before its answer is received.

    Attributes:
        count: the number of requests, or of answers, so far.
        at: the number of the one that is lost; 0: none.
        then: is called when the connection is closed.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
        self.count, self.at = 0, 0
        self.then: Callable[[], None] | None = None
        self._answer = lost == "answer"
        self._receive = sockets.BrokerConnection.receive
        name = "receive" if self._answer else "send"
        usual = getattr(sockets.BrokerConnection, name)

        def breaking(connection: sockets.BrokerConnection, *arguments: Any, **more: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                self._break(connection)
            return usual(connection, *arguments, **more)

        monkeypatch.setattr(sockets.BrokerConnection, name, breaking)

    def start(self, at: int, then: Callable[[], None] | None = None) -> None:
        """Counts from the beginning."""
        self.count, self.at, self.then = 0, at, then

    def _break(self, connection: sockets.BrokerConnection) -> None:
        if self._answer:
            self._receive(connection)
        connection.close()
        if self.then is not None:
            self.then()
        raise NetworkError("broken by the test")


class Read(NamedTuple):
    """A record, as confluent-kafka reads it."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


def read_committed(bootstrap: str, topic: str, **config: Any) -> list[Read]:
    """Reads all committed records of a topic, up to the last stable offsets, with confluent-kafka."""
    return read_topics(bootstrap, [topic], **config)[topic]


def read_topics(bootstrap: str, topics: Iterable[str], **config: Any) -> dict[str, list[Read]]:
    """As `read_committed`, for several topics; those that do not exist have no records.

    First waits for the end of all transactions that are decided: Kafka answers EndTxn before it writes the markers.
    """
    wait_for_decided(bootstrap, TIMEOUT_S)
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": bootstrap, "group.id": "judge", "isolation.level": "read_committed",
        "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 10, **config,
    })  # fmt: skip
    try:
        known = consumer.list_topics(timeout=TIMEOUT_S).topics
        found: dict[str, list[Read]] = {topic: [] for topic in topics}
        places = {(topic, one) for topic in found if topic in known for one in known[topic].partitions}
        consumer.assign([confluent_kafka.TopicPartition(*place, 0) for place in sorted(places)])
        while places:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"no message within {TIMEOUT_S} s"
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                places.discard((message.topic(), message.partition()))
            else:
                headers = tuple((name, value) for name, value in message.headers() or ())
                moment = message.timestamp()[1]
                one = Read(message.partition(), message.key(), message.value(), headers, moment)
                found[message.topic()].append(one)
        return found
    finally:
        consumer.close()


def numbers(read: list[Read]) -> list[int]:
    """The values as numbers, sorted."""
    return sorted(int(one.value or b"-1") for one in read)
