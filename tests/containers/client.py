"""Produces or reads with confluent-kafka, on this machine or in a container.

    python client.py SETTINGS write|read TOPIC

The settings are librdkafka's, as JSON. `write` prints the values that were acknowledged, `read` all of the topic.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import confluent_kafka as ck

RECORDS = 200
TIMEOUT_S = 60
SUBSCRIBER = {"group.id": "unused", "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}


def write(settings: Mapping[str, str], topic: str) -> list[str]:
    """Produce records with acks=all; those that were acknowledged, sorted."""
    written: list[str] = []

    def delivered(error: ck.KafkaError | None, message: ck.Message) -> None:
        if error is None:
            written.append(message.value().decode())

    producer = ck.Producer({**settings, "acks": "all", "log_level": 0})
    for number in range(RECORDS):
        producer.produce(topic, b"value %d" % number, on_delivery=delivered)
    producer.flush(TIMEOUT_S)
    return sorted(written)


def read(settings: Mapping[str, str], topic: str) -> list[str]:
    """All values of a topic, sorted."""
    consumer = ck.Consumer({**settings, "enable.partition.eof": True, **SUBSCRIBER})
    partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    consumer.assign([ck.TopicPartition(topic, index, 0) for index in partitions])
    left, values = set(partitions), list[str]()
    while left:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"nothing within {TIMEOUT_S} s"
        error = message.error()
        if error is None:
            values.append(message.value().decode())
        else:
            assert error.code() == ck.KafkaError._PARTITION_EOF, error
            left.discard(message.partition())
    consumer.close()
    return sorted(values)


if __name__ == "__main__":
    print(json.dumps({"write": write, "read": read}[sys.argv[2]](json.loads(sys.argv[1]), sys.argv[3])))
