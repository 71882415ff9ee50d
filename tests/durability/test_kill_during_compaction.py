"""`kill -9` while the log cleaner is at work: the last acknowledged value of each key is there, at every restart.

At the end Apache Kafka opens the directory, once as a clean shutdown has left it and once as the last kill has left it
that hit a cleaning, and reads the same. A few kills in each run of the tests; `make compaction-kills` for fifty.
"""

from __future__ import annotations

import os
import shutil
import time
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.logs import check_indexes
from support.node import NodeProcess
from support.oracle import Oracle, needs_oracle, tool

from minikafka.protocol.names import TopicPartition
from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.logs.log import Log, LogConfig
from minikafka.storage.logs.log_context import Checkpointed, LogContext

KILLS = int(os.environ.get("MINIKAFKA_COMPACTION_KILLS", "3"))
TOPIC = "table"
KEYS = 150
VALUE_SIZE = 15_000
KILLED_AFTER_S_MAX = 0.2
TIMEOUT_S = 60
SETTINGS = {
    "log.cleaner.backoff.ms": 1,
    "log.cleaner.io.max.bytes.per.second": 2e7,  # so that the cleaner is at work most of the time
    "log.segment.delete.delay.ms": 100,
    "log.flush.offset.checkpoint.interval.ms": 500,
}
CONFIGS = {
    "cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1", "max.message.bytes": "1000000",
}  # fmt: skip
pytestmark = pytest.mark.timeout(120 + 20 * KILLS)


@dataclass
class Noted:
    """What was written, by key.

    Attributes:
        sent: each number, and whether it was that of a tombstone.
        acknowledged: the last number that was.
    """

    sent: dict[bytes, list[tuple[int, bool]]] = field(default_factory=dict)
    acknowledged: dict[bytes, int] = field(default_factory=dict)

    def check(self, found: dict[bytes, int]) -> None:
        """Compares the number of the last value of each key (0: none) with what was acknowledged."""
        for key, sent in self.sent.items():
            last = self.acknowledged.get(key, 0)
            allowed = {0 if is_tombstone else number for number, is_tombstone in sent if number >= last}
            if not last:
                allowed.add(0)
            assert found.get(key, 0) in allowed, (key, found.get(key, 0), last, sent[-5:])


class Writer:
    """Writes numbered values, and some tombstones, and notes the last number that was acknowledged for each key."""

    def __init__(self, bootstrap: str) -> None:
        self.random = Random(7)
        self.number = 0
        self.noted = Noted()
        self.producer = confluent_kafka.Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "batch.size": 200_000,
            "message.timeout.ms": TIMEOUT_S * 1000, "reconnect.backoff.max.ms": 200, "compression.type": "lz4",
        })  # fmt: skip

    def write(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            number, key = self.number, b"key-%d" % self.random.randrange(KEYS)
            is_tombstone = self.random.random() < 0.05
            value = None if is_tombstone else b"%d " % number + self.random.randbytes(VALUE_SIZE)
            self.noted.sent.setdefault(key, []).append((number, is_tombstone))
            self.producer.produce(TOPIC, value, key=key, on_delivery=self._noting(key, number))
            self.producer.poll(0)

    def _noting(self, key: bytes, number: int) -> object:
        def delivered(error: object, message: object) -> None:
            assert error is None
            last = self.noted.acknowledged
            last[key] = max(number, last.get(key, 0))

        return delivered

    def finish(self) -> None:
        assert self.producer.flush(TIMEOUT_S) == 0


def read_table(bootstrap: str) -> dict[bytes, int]:
    """The number of the last value of each key; 0 after a tombstone."""
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": bootstrap, "group.id": "readers", "enable.partition.eof": True,
        "enable.auto.commit": False, "auto.offset.reset": "error",
    })  # fmt: skip
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    found: dict[bytes, int] = {}
    offset = -1
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "the consumer does not reach the end"
        error = message.error()
        if error is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            consumer.close()
            return found
        assert message.offset() > offset
        offset = message.offset()
        found[message.key()] = _number(message.value())


@dataclass
class Killed:
    """A node that was killed again and again.

    Attributes:
        interrupted: the number of kills that left files of a cleaning.
        closed: the directory of the partition after a clean shutdown, with what it must have.
        interrupted_at: a copy of it after the last kill that left such files, or if none did, after the last kill.
    """

    interrupted: int
    closed: tuple[Path, Noted]
    interrupted_at: tuple[Path, Noted]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    path, copy = tmp_path_factory.mktemp("killed"), tmp_path_factory.mktemp("copy") / "partition"
    directory = path / "node" / f"{TOPIC}-0"
    random = Random(3)
    interrupted, then = 0, Noted()
    with NodeProcess(path / "node", settings=SETTINGS) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIGS)])[TOPIC].result(TIMEOUT_S)
        writer = Writer(node.bootstrap)
        writer.write(3 * KEYS)
        writer.finish()
        for _ in range(KILLS):
            ends_at = time.monotonic() + TIMEOUT_S
            writer.write(2 * KEYS)  # Not more: the cleaner, which is throttled, first reads all that is dirty.
            while not _is_cleaning(directory):
                assert time.monotonic() < ends_at, "the log is not cleaned"
                writer.producer.poll(0.003)
            time.sleep(random.uniform(0, KILLED_AFTER_S_MAX))
            node.kill()
            is_interrupted = _is_cleaning(directory)
            interrupted += is_interrupted
            if is_interrupted or not interrupted:
                then = deepcopy(writer.noted)
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(directory, copy)
            node.restart()
            writer.noted.check(read_table(node.bootstrap))
        writer.finish()
        writer.noted.check(read_table(node.bootstrap))
        node.terminate()
    print(f"{interrupted} of {KILLS} kills left files of a cleaning")
    return Killed(interrupted, (directory, writer.noted), (copy, then))


@pytest.mark.slow
def test_the_last_value_of_each_key_survives_kills_of_a_node_that_compacts(killed: Killed) -> None:
    assert killed.interrupted or KILLS < 10, "no kill hit a cleaning"
    directory, _ = killed.closed
    config = LogConfig(cleanup_policy=("compact",))
    log = Log.open(
        LogContext(RealDisk(), lambda: 0), str(directory), TopicPartition(TOPIC, 0), config, Checkpointed(clean=True)
    )
    assert log.report.damage == ""
    check_indexes(log)


@pytest.mark.slow
@pytest.mark.oracle
@needs_oracle
def test_a_jvm_opens_the_directory_of_a_node_that_was_killed_as_it_compacted(killed: Killed, tmp_path: Path) -> None:
    with Oracle(tmp_path / "kafka") as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIGS)])[TOPIC].result(TIMEOUT_S)
        target = kafka.logs / f"{TOPIC}-0"
        kafka.terminate()
        for directory, noted in (killed.closed, killed.interrupted_at):
            for path in target.iterdir():
                if path.name != "partition.metadata":  # It has the topic's id.
                    path.unlink()
            for path in directory.iterdir():
                if path.name != "partition.metadata":
                    shutil.copy(path, target)
            (kafka.logs / ".kafka_cleanshutdown").unlink(missing_ok=True)  # Kafka recovers, which checks every batch.
            kafka.start()
            noted.check(read_table(kafka.bootstrap))
            kafka.terminate()
            assert not _is_cleaning(target)
            dumped = tool("dump-log", "--files", ",".join(map(str, sorted(target.glob("*.log")))), "--deep-iteration")
            assert "isvalid: false" not in dumped


def _number(value: bytes | None) -> int:
    return 0 if value is None else int(value.split(b" ", 1)[0])


def _is_cleaning(directory: Path) -> bool:
    return any(name.endswith((".cleaned", ".swap")) for name in os.listdir(directory))
