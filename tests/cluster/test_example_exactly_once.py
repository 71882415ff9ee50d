"""`examples/exactly_once.py` on three nodes: it and the brokers are killed, and every flight is counted exactly once.

confluent-kafka writes the input and reads the result.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import confluent_kafka
import pytest
from support.clients import eventually

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin

EXAMPLE = Path(__file__).parents[2] / "examples" / "exactly_once.py"
FLIGHTS = 6000
ROUNDS = 4
DELAYED = FLIGHTS // 2


def send(bootstrap: str, first: int, count: int) -> None:
    """Every second flight is delayed."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce("flights", json.dumps({"number": number, "delay": number % 2}), key=str(number))
    assert producer.flush(60) == 0


def committed(bootstrap: str) -> list[int]:
    """The numbers in `delayed`, as a read_committed consumer sees them now."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": str(uuid4()),
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    numbers: list[int] = []
    ended: set[int] = set()
    consumer.assign([confluent_kafka.TopicPartition("delayed", index, 0) for index in range(3)])
    while len(ended) < 3:
        message = consumer.poll(30)
        assert message is not None, "a partition cannot be read to its end"
        error = message.error()
        if error is None:
            numbers.append(json.loads(message.value())["number"])
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
    consumer.close()
    return numbers


@contextmanager
def running(bootstrap: str, number: int) -> Iterator[subprocess.Popen[bytes]]:
    """The example in a process of its own, which is killed at the end."""
    process = subprocess.Popen([sys.executable, EXAMPLE, bootstrap, str(number)], stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_flight_is_counted_exactly_once(tmp_path: Path) -> None:
    settings = {"group.initial.rebalance.delay.ms": 0, "broker.session.timeout.ms": 5000}
    with LocalCluster(tmp_path, brokers=3, settings=settings) as cluster:
        with Admin(cluster.bootstrap) as admin:
            for name in ("flights", "delayed"):
                admin.create_topic(name, partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"})
        for index in range(ROUNDS):
            before = len(committed(cluster.bootstrap))
            with running(cluster.bootstrap, 0):
                send(cluster.bootstrap, index * FLIGHTS // ROUNDS, FLIGHTS // ROUNDS)
                eventually(lambda before=before: len(committed(cluster.bootstrap)) > before, timeout_s=90)
            if index:
                cluster.kill(index)
                cluster.start(index)
        with running(cluster.bootstrap, 0), running(cluster.bootstrap, 1):
            eventually(lambda: len(committed(cluster.bootstrap)) >= DELAYED, timeout_s=120)
        assert sorted(committed(cluster.bootstrap)) == list(range(1, FLIGHTS, 2))
