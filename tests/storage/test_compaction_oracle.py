"""Apache Kafka's cleaner leaves the same batches as ours, and a JVM broker opens a log that ours has cleaned."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import confluent_kafka
import pytest
import trio
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from support.compaction import COMPACTED, KEY, Cleaned, Row
from support.logs import check_indexes
from support.oracle import Oracle, needs_oracle, tool

from minikafka.protocol.records.batch import Batch, batches
from minikafka.storage.disks.checkpoint_files import CLEANER_OFFSETS, BrokenCheckpoint, read_offsets
from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.segments.transaction_index import TransactionIndex
from minikafka.storage.steps import at_once

pytestmark = [pytest.mark.oracle, needs_oracle, pytest.mark.timeout(600)]
TOPIC = KEY.topic
SEGMENT_MS = 60_000
LAG_MAX = "9223372036854775807"
SETTINGS = {
    "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "delete.retention.ms": "1",
    "segment.ms": str(SEGMENT_MS), "segment.index.bytes": "8192", "index.interval.bytes": "500",
    "min.compaction.lag.ms": LAG_MAX, "message.timestamp.after.max.ms": LAG_MAX,
}  # fmt: skip
CONFIG = replace(
    COMPACTED, delete_retention_ms=1, segment_bytes=1 << 30, segment_index_bytes=8192, index_interval_bytes=500
)
NOW_MS = 4_000_000_000_000
"""The time of the first records, after that of all markers, so that only records roll segments."""
DEADLINE_S = 60


class Kafka:
    """Apache Kafka with the topic, stopped and started as needed."""

    def __init__(self, path: Path) -> None:
        self.node = Oracle(path, settings={"log.cleaner.backoff.ms": 100, "log.initial.task.delay.ms": 0})
        self.random = Random(11)
        self.segment = 0

    def create(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap})
        topic = NewTopic(TOPIC, 1, 1, config=SETTINGS)
        admin.create_topics([topic])[TOPIC].result(DEADLINE_S)

    def write(self, segments: int) -> None:
        """Writes so many segments, by producers of all kinds, and one record to the active segment."""
        plain = self._producer()
        idempotent = self._producer(**{"enable.idempotence": True})
        transactional = self._producer(**{"transactional.id": f"t-{self.segment}"})
        transactional.init_transactions(DEADLINE_S)
        for _ in range(segments):
            self.segment += 1
            for codec_producer in (plain, idempotent, plain):
                self._burst(codec_producer, self.random.randint(1, 12))
                codec_producer.flush(DEADLINE_S)
            for abort in (False, True, self.random.random() < 0.5):
                transactional.begin_transaction()
                self._burst(transactional, self.random.randint(1, 5))
                transactional.flush(DEADLINE_S)
                (transactional.abort_transaction if abort else transactional.commit_transaction)(DEADLINE_S)
        self.segment += 1
        plain.produce(TOPIC, b"", key=b"in the active segment", timestamp=self._now_ms())
        plain.flush(DEADLINE_S)

    def _producer(self, **options: Any) -> confluent_kafka.Producer:
        codec = self.random.choice(["none", "gzip", "lz4", "zstd"])
        common = {"bootstrap.servers": self.node.bootstrap, "linger.ms": 50, "compression.type": codec}
        return confluent_kafka.Producer({**common, **options})

    def _now_ms(self) -> int:
        return NOW_MS + self.segment * (SEGMENT_MS + 1000)

    def _burst(self, producer: confluent_kafka.Producer, count: int) -> None:
        for _ in range(count):
            value = None if self.random.random() < 0.2 else self.random.randbytes(self.random.randrange(150))
            headers = [("h", b"1")] if self.random.random() < 0.2 else []
            key = b"key %d" % self.random.randrange(25)
            producer.produce(TOPIC, value, key=key, headers=headers, timestamp=self._now_ms())

    def clean(self) -> None:
        """Lets the cleaner clean everything below the active segment, once."""
        logs = self.node.logs
        active = max(int(path.stem) for path in (logs / str(KEY)).glob("*.log"))
        self._alter("min.compaction.lag.ms", "0")
        deadline = time.monotonic() + DEADLINE_S
        while _clean_offset(logs) != active:
            assert time.monotonic() < deadline, "the cleaner of Kafka does not clean"
            time.sleep(0.05)
        self._alter("min.compaction.lag.ms", LAG_MAX)

    def _alter(self, name: str, value: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap})
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(DEADLINE_S)

    def copy(self, target: Path) -> Path:
        """Copies the log and the cleaner's checkpoint; Kafka must be stopped."""
        shutil.copytree(self.node.logs / str(KEY), target / str(KEY))
        if (self.node.logs / CLEANER_OFFSETS).exists():
            shutil.copyfile(self.node.logs / CLEANER_OFFSETS, target / CLEANER_OFFSETS)
        return target

    def read(self) -> list[Row]:
        """What a consumer of uncommitted records reads."""
        consumer = confluent_kafka.Consumer({
            "bootstrap.servers": self.node.bootstrap, "group.id": "g", "isolation.level": "read_uncommitted",
            "enable.partition.eof": True, "enable.auto.commit": False,
        })  # fmt: skip
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
        rows: list[Row] = []
        while True:
            message = consumer.poll(DEADLINE_S)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                consumer.close()
                return rows
            rows.append(Row(message.offset(), message.timestamp()[1], message.key(), message.value()))


def _clean_offset(logs: Path) -> int:
    try:
        return read_offsets(RealDisk(), f"{logs}/{CLEANER_OFFSETS}").get(KEY, -1)
    except BrokenCheckpoint:  # Kafka makes an empty file first.
        return -1


def shown(batch: Batch) -> tuple[object, ...]:
    """What is compared of a batch: all but the time of its delete horizon, its encoding and its checksum."""
    return (
        batch.base_offset, batch.last_offset, batch.leader_epoch, batch.attributes, batch.max_timestamp,
        batch.producer_id, batch.producer_epoch, batch.base_sequence, *batch.records(),
    )  # fmt: skip


def all_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """The batches of each segment of a log."""
    found: dict[str, list[tuple[object, ...]]] = {}
    for segment in sorted((path / str(KEY)).glob("*.log")):
        file = RealDisk().open(str(segment))
        found[segment.name] = [shown(batch) for batch in batches(file.pread(0, file.size_bytes))]
    return found


def clean_copy(path: Path) -> Cleaned:
    """Cleans a copy of Kafka's log with our cleaner."""
    cleaned = Cleaned(RealDisk(), clock=lambda: int(time.time() * 1000), config=CONFIG, path=str(path))
    cleaned.log.high_watermark_advanced(cleaned.log.end_offset)
    return cleaned


@pytest.mark.slow
def test_kafkas_cleaner_leaves_the_same_and_a_jvm_opens_what_ours_leaves(tmp_path: Path) -> None:
    kafka = Kafka(tmp_path / "kafka")
    kafka.node.start()
    kafka.create()
    for number in range(2):
        kafka.write(4)
        kafka.node.terminate()
        ours = kafka.copy(tmp_path / f"ours-{number}")
        kafka.node.start()
        kafka.clean()
        time.sleep(0.2)
        kafka.node.terminate()
        theirs = kafka.copy(tmp_path / f"theirs-{number}")
        cleaned = clean_copy(ours)
        before = len(cleaned.rows())
        assert clean_all(cleaned) == 1
        assert all_of(ours) == all_of(theirs)
        assert len(cleaned.rows()) < before
        check_indexes(cleaned.log)
        expected = sorted((one[0], one[2]) for one in _aborted(theirs))
        assert sorted((one[0], one[2]) for one in _aborted(ours)) == expected
        cleaned.manager.close({KEY: cleaned.log.end_offset})
        kafka.node.start()
    kafka.node.terminate()
    rows = [row._replace(producer_id=-1) for row in clean_copy(ours).rows()]
    shutil.rmtree(kafka.node.logs / str(KEY))
    shutil.copytree(ours / str(KEY), kafka.node.logs / str(KEY))
    files = ",".join(str(path) for path in sorted((kafka.node.logs / str(KEY)).glob("*.log")))
    dumped = tool("dump-log", "--files", files, "--print-data-log")
    assert "isvalid: false" not in dumped
    kafka.node.start()
    assert kafka.read() == rows
    kafka.node.kill()
    (kafka.node.logs / ".kafka_cleanshutdown").unlink(missing_ok=True)
    kafka.node.start()
    assert kafka.read() == rows
    kafka.write(1)
    kafka.clean()
    assert kafka.read()[-1].key == b"in the active segment"
    kafka.node.terminate()


def _aborted(path: Path) -> list[tuple[int, int, int, int]]:
    found: list[tuple[int, int, int, int]] = []
    for index in sorted((path / str(KEY)).glob("*.txnindex")):
        found += TransactionIndex(RealDisk(), str(index)).entries
    return found


def clean_all(cleaned: Cleaned) -> int:
    """As `Cleaned.clean`, on a real disk."""

    async def clean() -> int:
        count = 0
        while (due := at_once(cleaned.compaction.choose())) is not None:
            assert await cleaned.compaction.clean(due)
            count += 1
        return count

    cleaned.log.flush()
    return trio.run(clean)
