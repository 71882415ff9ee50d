"""Brokers with the same topics: recorded data directories of Kafka, and topics filled by a producer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from support.node import NodeProcess, ServerProcess
from support.oracle import SHARED, Oracle
from support.spark_logs import PlainLog, adopt, read_log

LOGS = SHARED / "kafka-logs"
FIRST_TIME = 1_700_000_000_000
TIMEOUT_S = 120
OPEN_MS = 3_600_000
"""The transaction timeout: longer than all tests take."""
TOPICS = {"trio": 3, "times": 2, "codecs": 5}
DEALS = {"deals": 2}


class Broker:
    """A broker and its logs."""

    def __init__(self, name: str, server: ServerProcess, folder: Path) -> None:
        self.name = name
        self.server = server
        self.folder = folder
        self._logs: dict[tuple[str, int], PlainLog] = {}

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    def log(self, topic: str, partition: int) -> PlainLog:
        """Returns the log of a partition, which is read once and must not change."""
        if (topic, partition) not in self._logs:
            start = 60 if topic == "records-deleted" else 0
            self._logs[topic, partition] = read_log(self.folder / f"{topic}-{partition}", start)
        return self._logs[topic, partition]


def golden_topics() -> dict[str, int]:
    """Returns the topics of the recorded data directories with their log start offsets; empty if there are none."""
    path = LOGS / "manifest.json"
    if not path.exists():
        return {}
    return {name: one["log_start_offset"] for name, one in json.loads(path.read_text()).items()}


def filled_node(folder: Path, kafka_logs: Path | None = None) -> NodeProcess:
    """Starts a minikafka node with Kafka's segment files, including those of `deal`, and the topics of `fill`."""
    node = NodeProcess(folder / "data", settings={"log.retention.ms": -1, "log.cleaner.enable": "false"}).start()
    golden = golden_topics()
    deals = {} if kafka_logs is None else DEALS
    if golden or deals:
        create(node.bootstrap, dict.fromkeys(golden, 1) | deals, **{"retention.ms": "-1"})
        node.terminate()
        adopt(LOGS / "clean", node.data_dir, [f"{topic}-0" for topic in golden])
        if kafka_logs is not None:
            adopt(kafka_logs, node.data_dir, [f"deals-{number}" for number in range(DEALS["deals"])], only="*.log")
            (node.data_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
        node.start()
    if golden:
        delete_records(node.bootstrap, "records-deleted", golden["records-deleted"])
    fill(node.bootstrap)
    return node


def filled_kafka(folder: Path) -> Oracle:
    """Starts an Apache Kafka broker with the same topics."""
    kafka = Oracle(folder / "kafka", settings={"transaction.max.timeout.ms": OPEN_MS})
    if golden_topics():
        shutil.copytree(LOGS / "clean", kafka.logs, copy_function=shutil.copyfile)
        for directory in (kafka.logs, *kafka.logs.iterdir()):
            if directory.is_dir():
                directory.chmod(0o755)
    kafka.start()
    fill(kafka.bootstrap)
    deal(kafka.bootstrap)
    return kafka


def deal(bootstrap: str) -> None:
    """Fills the topic `deals`: overlapping transactions, committed and aborted, and one that remains open.

    Plain records lie between them and after the first record of the open transaction.
    """
    create(bootstrap, DEALS, **{"retention.ms": "-1"})
    one, other, last = (transactional(bootstrap, name) for name in ("one", "other", "last"))
    for number in range(0, 90, 30):
        for producer in (one, other):
            producer.begin_transaction()
        for place in range(number, number + 20, 5):
            for producer in (one, other):
                send_on(producer, range(place, place + 5))
            produce(bootstrap, "deals", [message(place, 0)])
        one.commit_transaction(TIMEOUT_S)
        other.abort_transaction(TIMEOUT_S)
    last.begin_transaction()
    send_on(last, range(5))
    produce(bootstrap, "deals", [message(number, number % 2) for number in range(6)])


def transactional(bootstrap: str, name: str) -> confluent_kafka.Producer:
    options = {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": OPEN_MS}
    producer = confluent_kafka.Producer(options)
    producer.init_transactions(TIMEOUT_S)
    return producer


def send_on(producer: confluent_kafka.Producer, numbers: Iterable[int]) -> None:
    """Sends one batch to each partition and waits for the acknowledgement."""
    for number in numbers:
        producer.produce("deals", **message(number, number % 2))
    assert producer.flush(TIMEOUT_S) == 0


def create(bootstrap: str, topics: Mapping[str, int], **config: str) -> None:
    """Creates topics and waits for them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(name, count, 1, config=config) for name, count in topics.items()]
    for future in admin.create_topics(wanted).values():
        future.result(TIMEOUT_S)


def delete(bootstrap: str, *topics: str) -> None:
    """Deletes topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics(list(topics)).values():
        future.result(TIMEOUT_S)


def grow(bootstrap: str, topic: str, count: int) -> None:
    """Increases the number of partitions of a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_partitions([confluent_kafka.admin.NewPartitions(topic, count)]).values():
        future.result(TIMEOUT_S)


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    """Deletes the records of partition 0 below an offset."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([confluent_kafka.TopicPartition(topic, 0, before)]).values():
        future.result(TIMEOUT_S)


def produce(bootstrap: str, topic: str, messages: Sequence[Mapping[str, Any]], **config: Any) -> None:
    """Produces messages (arguments of `Producer.produce`) in order, and waits for all acknowledgements."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **config})
    for message in messages:
        producer.produce(topic, **message)
    assert producer.flush(TIMEOUT_S) == 0


def fill(bootstrap: str) -> None:
    """Fills the topics of TOPICS, identically on each broker."""
    create(bootstrap, TOPICS, **{"retention.ms": "-1"})  # their times are long ago
    produce(bootstrap, "trio", [message(number, number % 2) for number in range(60)], **{"batch.num.messages": 7})
    times = [500, 100, 900, 300, 1000, 200, 2000, 1500, 2500, 2500]
    moments = [(partition, time) for time in times for partition in (0, 1)]
    produce(bootstrap, "times", [
        {"value": b"at %d" % time, "partition": partition, "timestamp": FIRST_TIME + time + partition * 10}
        for partition, time in moments
    ], **{"batch.num.messages": 3})  # fmt: skip
    for partition, codec in enumerate(["none", "gzip", "snappy", "lz4", "zstd"]):
        messages = [message(number, partition) for number in range(40)]
        produce(bootstrap, "codecs", messages, **{"compression.type": codec, "batch.num.messages": 20})


def message(number: int, partition: int) -> dict[str, Any]:
    """Returns a message with unusual keys, values or headers."""
    headers: list[tuple[str, bytes | None]] = [("n", b"%d" % number), ("null", None), ("größe", b"")]
    return {
        "key": [None, b"", b"key-%d" % number][number % 3],
        "value": None if number % 11 == 0 else b"value %d " % number * (number % 5),
        "headers": headers[: number % 4],
        "partition": partition,
        "timestamp": FIRST_TIME + number * 100,
    }
