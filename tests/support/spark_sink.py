"""What a foreign client reads from a topic: for the tests of the Spark sink."""

from __future__ import annotations

from typing import Any, NamedTuple

import confluent_kafka

TIMEOUT_S = 60


class Read(NamedTuple):
    """A record, as confluent-kafka reads it."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


def read_committed(bootstrap: str, topic: str, **config: Any) -> list[Read]:
    """Reads all committed records of a topic, up to the last stable offsets, with confluent-kafka."""
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": bootstrap, "group.id": "judge", "isolation.level": "read_committed",
        "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest", **config,
    })  # fmt: skip
    try:
        partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, one, 0) for one in partitions])
        found, ended = [], set[int]()
        while len(ended) < len(partitions):
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"no message within {TIMEOUT_S} s"
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
            else:
                headers = tuple((name, value) for name, value in message.headers() or ())
                moment = message.timestamp()[1]
                found.append(Read(message.partition(), message.key(), message.value(), headers, moment))
        return found
    finally:
        consumer.close()


def numbers(read: list[Read]) -> list[int]:
    """The values as numbers, sorted."""
    return sorted(int(one.value or b"-1") for one in read)
