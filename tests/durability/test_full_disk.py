"""A node whose disk is full: it serves reads, refuses writes, and goes on by itself when there is room."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.node import NodeProcess

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system"),
]
SIZE_MIB = 8
VALUE = bytes(50_000)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few MiB."""
    path = tmp_path / "small"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", str(path)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["all on it", "metadata elsewhere"])
def test_a_node_alone_with_a_full_disk(small: Path, tmp_path: Path, place: str) -> None:
    ballast = small / "ballast"
    ballast.write_bytes(bytes(SIZE_MIB * 3 << 18))
    settings = {"metadata.log.dir": tmp_path / "metadata"} if place == "metadata elsewhere" else {}
    node = NodeProcess(small / "data", settings=settings)
    node.log_path = tmp_path / "node.log"
    with node:
        pid = node.pid
        create(node, "t", **{"flush.messages": "1"})
        written, refusal = fill(node, "t")
        assert written > 10
        assert refusal == confluent_kafka.KafkaError.KAFKA_STORAGE_ERROR
        assert read(node, "t", written) == written, "what is there can be read"
        assert produce(node, "t") == confluent_kafka.KafkaError.KAFKA_STORAGE_ERROR
        if place == "all on it":
            assert "No space left on device" in refusal_of_topics(node)
        assert "log directory full" in node.log_tail(1000)
        ballast.unlink()
        until(lambda: "log directory has room again" in node.log_tail(1000))
        assert produce(node, "t") is None
        create(node, "later")
        assert produce(node, "later") is None
        assert read(node, "t", written + 1) == written + 1
        assert node.pid == pid
        assert node.terminate() == 0
        node.start()
        assert read(node, "t", written + 1) == written + 1


def create(node: NodeProcess, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
    admin.create_topics([new])[topic].result(30)


def refusal_of_topics(node: NodeProcess) -> str:
    """Creates topics until one is refused; returns the error."""
    for number in range(200):
        try:
            create(node, f"new-{number}", 20)
        except confluent_kafka.KafkaException as error:
            return str(error)
    return "none was refused"


def fill(node: NodeProcess, topic: str) -> tuple[int, int | None]:
    """Produces until it is refused; returns how many were acknowledged, and the code of the refusal."""
    for number in range(1000):
        code = produce(node, topic)
        if code is not None:
            return number, code
    raise AssertionError("nothing was refused")


def produce(node: NodeProcess, topic: str) -> int | None:
    """Produces one record without a retry; returns the error code."""
    codes: list[int | None] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": node.bootstrap, "retries": 0, "log_level": 0})
    producer.produce(topic, VALUE, on_delivery=lambda error, _: codes.append(error.code() if error else None))
    assert producer.flush(30) == 0
    return codes[0]


def read(node: NodeProcess, topic: str, count: int) -> int:
    """Reads `count` records; returns how many there are."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        found = consumer.consume(count, timeout=30)
        assert [one.error() for one in found if one.error()] == []
        assert all(one.value() == VALUE for one in found)
        low, high = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=30)
        return high - low if len(found) == count else len(found)
    finally:
        consumer.close()


def until(condition: object) -> None:
    deadline = time.monotonic() + 30
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)
