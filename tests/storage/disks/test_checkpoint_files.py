"""Checkpoints and other small files: Kafka's formats, and invalid content."""

from __future__ import annotations

from contextlib import suppress

import pytest
from support.logs import memory_disk
from support.oracle import shared

from minikafka.protocol.names import TopicPartition
from minikafka.storage.disks import checkpoint_files
from minikafka.storage.disks.checkpoint_files import BrokenCheckpoint
from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.disks.memory_disk import PowerLoss

PATH = "/data/checkpoint"


def test_offsets_round_trip_in_order() -> None:
    disk = memory_disk()
    offsets = {TopicPartition("z", 3): 1 << 40, TopicPartition("a.b-c_d", 0): 0}
    checkpoint_files.write_offsets(disk, PATH, offsets)
    assert disk.read_bytes(PATH) == b"0\n2\nz 3 1099511627776\na.b-c_d 0 0\n"
    assert list(checkpoint_files.read_offsets(disk, PATH).items()) == list(offsets.items())
    checkpoint_files.write_offsets(disk, PATH, {})
    assert disk.read_bytes(PATH) == b"0\n0\n"
    assert checkpoint_files.read_offsets(disk, PATH) == {}
    assert checkpoint_files.read_offsets(disk, "/data/none") == {}


@pytest.mark.parametrize(
    "text",
    [b"", b"0\n", b"1\n0\n", b"0\n1\n", b"0\n1\na 0 5", b"0\n0\na 0 5\n", b"0\n1\na 0\n", b"0\n1\na 0 -5\n",
     b"0\n1\na 0 5x\n", b"0\n\n", b"\xff\xfe\n", b"0\n1\na 0 5\n\n", bytes(100)],
)  # fmt: skip
def test_an_incomplete_checkpoint_is_rejected(text: bytes) -> None:
    disk = memory_disk()
    disk.write_atomically(PATH, text)
    with pytest.raises(BrokenCheckpoint):
        checkpoint_files.read_offsets(disk, PATH)


def test_files_of_kafka_round_trip() -> None:
    clean, disk, memory = shared("kafka-logs", "clean"), RealDisk(), memory_disk()
    names = (checkpoint_files.RECOVERY_POINTS, checkpoint_files.HIGH_WATERMARKS, checkpoint_files.LOG_START_OFFSETS)
    for name in names:
        checkpoint_files.write_offsets(memory, PATH, checkpoint_files.read_offsets(disk, f"{clean}/{name}"))
        assert memory.read_bytes(PATH) == (clean / name).read_bytes()
    assert checkpoint_files.read_clean_shutdown(disk, f"{clean}/.kafka_cleanshutdown") == 11
    checkpoint_files.write_clean_shutdown(memory, PATH, 11)
    assert memory.read_bytes(PATH) == (clean / ".kafka_cleanshutdown").read_bytes()
    found = checkpoint_files.read_properties(disk, f"{clean}/meta.properties")
    assert found == {
        "node.id": "1",
        "directory.id": "h9zlYEK9qPjfr3iumdYCnw",
        "version": "1",
        "cluster.id": "Z29sZGVuLWNsdXN0ZXItMQ",
    }
    for path in clean.glob("*/partition.metadata"):
        topic_id = checkpoint_files.read_topic_id(disk, str(path))
        assert topic_id is not None
        checkpoint_files.write_topic_id(memory, PATH, topic_id, sync=True)
        assert memory.read_bytes(PATH) == path.read_bytes()


@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        (b'{"version":0,"brokerEpoch":-1}', -1),
        (b'{"version":9,"brokerEpoch":5}', -1),
        (b"", -1),
        (b"[]", -1),
        (b"\xff", -1),
    ],
)
def test_an_invalid_clean_shutdown_file_still_counts(text: bytes, epoch: int) -> None:
    disk = memory_disk()
    assert checkpoint_files.read_clean_shutdown(disk, PATH) is None
    disk.write_atomically(PATH, text)
    assert checkpoint_files.read_clean_shutdown(disk, PATH) == epoch


def test_properties_with_special_characters_round_trip() -> None:
    disk = memory_disk()
    properties = {"cluster.id": "a=b:c#d!e\\f", "node.id": "1"}
    checkpoint_files.write_properties(disk, PATH, properties)
    assert checkpoint_files.read_properties(disk, PATH) == properties
    disk.write_atomically(PATH, b"# only\n\ncluster.id\n")
    with pytest.raises(BrokenCheckpoint, match="without '='"):
        checkpoint_files.read_properties(disk, PATH)


def test_a_write_is_atomic_in_a_crash() -> None:
    key = TopicPartition("a", 0)
    for seed in range(100):
        disk = memory_disk(seed)
        checkpoint_files.write_offsets(disk, PATH, {key: 1})
        disk.lose_power_after(seed % 7)
        with suppress(PowerLoss):
            checkpoint_files.write_offsets(disk, PATH, {key: 2})
        disk.crash()
        assert checkpoint_files.read_offsets(disk, PATH)[key] in (1, 2)
