"""`bootstrap.checkpoint`: Kafka's bytes, read and written."""

from __future__ import annotations

from random import Random

import pytest

from minikafka.controller.decisions.bootstrap_records import bootstrap
from minikafka.controller.metadata.formatted_levels import Formatted, read_formatted, write_formatted
from minikafka.controller.metadata.records import FeatureRecord
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.storage.disks.checkpoint_files import BrokenCheckpoint
from minikafka.storage.disks.memory_disk import MemoryDisk

PATH = "/data/bootstrap.checkpoint"
KAFKAS = bytes.fromhex(
    "00000000000000000000004700000000024941d32a002000000000000001a2071a7d3c000001a2071a7d3cffffffffffffffffffffffffffff0000"
    "00012a0000000800000003160000000000000000000000000000000000000001000000f1000000000287635fd1000000000005000001a2071a7d88"
    "000001a2071a7d88ffffffffffffffffffffffffffff000000063a000000012e010c00116d657461646174612e76657273696f6e001e00005a0000"
    "02014e010c0021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e00010000340000040128010c000e67726f75702e"
    "76657273696f6e00010000340000060128010c000e73686172652e76657273696f6e0001000038000008012c010c001073747265616d732e766572"
    "73696f6e000100004000000a0134010c00147472616e73616374696f6e2e76657273696f6e0002000000000000000000070000003f000000000262"
    "1a0cf2002000000000000001a2071a7d8a000001a2071a7d8affffffffffffffffffffffffffff000000011a00000008000000040600000000"
)
"""A file that `kafka-storage format` of Kafka 4.3.1 wrote."""
LEVELS = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}


def disk_with(data: bytes) -> MemoryDisk:
    disk = MemoryDisk(Random(0))
    disk.make_directory("/data")
    disk.write_atomically(PATH, data)
    return disk


def test_kafkas_levels_are_read() -> None:
    assert read_formatted(disk_with(KAFKAS), "/data") == Formatted(LEVELS)


def test_ours_are_those_of_kafka_but_for_the_times() -> None:
    disk = disk_with(b"")
    write_formatted(disk, "/data", Formatted(LEVELS), now_ms=1_795_000_000_000)
    assert read_formatted(disk, "/data") == Formatted(LEVELS)
    found = disk.read_bytes(PATH)
    assert len(found) == len(KAFKAS)
    records = slice(KAFKAS.index(b"\x3a\x00\x00\x00\x01\x2e"), KAFKAS.index(b"transaction.version") + 23)
    assert found[records] == KAFKAS[records]


def test_a_directory_without_the_file_has_none() -> None:
    assert read_formatted(MemoryDisk(Random(0)), "/data") == Formatted()


@pytest.mark.parametrize("end", [0, 60, -1, -75])
def test_a_file_without_its_end_is_refused(end: int) -> None:
    with pytest.raises(BrokenCheckpoint, match="its end is missing"):
        read_formatted(disk_with(KAFKAS[:end]), "/data")


@pytest.mark.parametrize("position", [100, 190])
def test_a_damaged_file_is_refused(position: int) -> None:
    with pytest.raises(BrokenCheckpoint, match=PATH):
        read_formatted(disk_with(KAFKAS[:position] + b"?" + KAFKAS[position + 1 :]), "/data")


def features_of(static: StaticSettings) -> dict[str, int]:
    return {one.name: one.level for one in bootstrap("c", static) if isinstance(one, FeatureRecord)}


def test_a_new_cluster_has_the_levels_that_it_was_formatted_with() -> None:
    elr = {"eligible.leader.replicas.version": 1}
    given = {"initial.metadata.version": "4.1"}
    formatted = {"metadata.version": 29, "transaction.version": 1, "group.version": 0}
    assert features_of(StaticSettings(1, given, formatted=Formatted(formatted))) == {
        "metadata.version": 29,
        "transaction.version": 1,
        **elr,
    }
    default = {"group.version": 1, "transaction.version": 2, **elr}
    assert features_of(StaticSettings(1, given)) == {"metadata.version": 27, **default}
