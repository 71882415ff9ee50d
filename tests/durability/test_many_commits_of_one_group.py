"""`__consumer_offsets` is compacted while a group commits again and again: what is left on disk does not grow with it.

10,000 commits in each run of the tests; `MINIKAFKA_COMMITS=1000000` for a million.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support.node import NodeProcess

confluent_kafka = pytest.importorskip("confluent_kafka")
administration = pytest.importorskip("confluent_kafka.admin")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

COMMITS = int(os.environ.get("MINIKAFKA_COMMITS", "10000"))
IN_FLIGHT = 500
SEGMENT_BYTES = 1 << 20
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "offsets.topic.segment.bytes": SEGMENT_BYTES,
    "log.cleaner.backoff.ms": 50,
    "log.cleaner.min.cleanable.ratio": 0.01,
}
TIMEOUT_S = 60


def test_many_commits_of_one_group_leave_little_on_disk(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "node", settings=SETTINGS) as node:
        commit(node, COMMITS)
        log = tmp_path / "node" / "__consumer_offsets-0"
        assert last_base_offset(log) > COMMITS // 2
        until_smaller(log, SEGMENT_BYTES * 3 // 2)
        node.kill()
        node.start()
        assert committed(node) == COMMITS


def commit(node: NodeProcess, count: int) -> None:
    """Commit offsets 1 to `count` of one partition, many at a time."""
    answered = [0]

    def on_commit(error: object, _: object) -> None:
        assert error is None, error
        answered[0] += 1

    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": node.bootstrap, "group.id": "g", "enable.auto.commit": False, "on_commit": on_commit,
    })  # fmt: skip
    deadline = time.monotonic() + 1700
    create_topic(node)
    consumer.committed([confluent_kafka.TopicPartition("flights", 0)], TIMEOUT_S)
    for number in range(1, count + 1):
        consumer.commit(offsets=[confluent_kafka.TopicPartition("flights", 0, number)])
        while number - answered[0] > (IN_FLIGHT if number < count else 0):
            assert time.monotonic() < deadline, f"{answered[0]} of {count} commits were answered"
            consumer.poll(0.01)
    consumer.close()


def create_topic(node: NodeProcess) -> None:
    admin = administration.AdminClient({"bootstrap.servers": node.bootstrap})
    for future in admin.create_topics([administration.NewTopic("flights", 1, 1)]).values():
        future.result(TIMEOUT_S)


def committed(node: NodeProcess) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g"})
    (found,) = consumer.committed([confluent_kafka.TopicPartition("flights", 0)], TIMEOUT_S)
    consumer.close()
    return int(found.offset)


def last_base_offset(log: Path) -> int:
    """The base offset of the last segment."""
    return max(int(path.stem) for path in log.glob("*.log"))


def until_smaller(log: Path, bytes_max: int) -> None:
    """Wait until the segments are smaller than this together."""
    deadline = time.monotonic() + TIMEOUT_S
    while (size := sum(path.stat().st_size for path in log.glob("*.log"))) > bytes_max:
        assert time.monotonic() < deadline, f"{size:,} bytes are left"
        time.sleep(0.05)
