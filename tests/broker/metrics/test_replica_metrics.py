"""The metrics of data directories: failed, full, and the room on their disks."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import cast

from minikafka.broker.metrics.replica_metrics import directory_metrics
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.disks.memory_disk import MemoryDisk


def metrics_of(*directories: DataDirectory) -> dict[str, dict[str, float]]:
    """The values of each metric by the path of the directory, "" for none."""
    manager = cast(LogManager, SimpleNamespace(directories=directories))
    families = [family for family in directory_metrics(lambda: manager)() if family is not None]
    return {family.name: {"".join(labels): value for labels, value in family.samples} for family in families}


def test_a_directory_is_full_from_a_refused_write_until_there_is_room_again() -> None:
    disk = MemoryDisk()
    disk.make_directory("/one")
    directory = DataDirectory(disk, "/one")
    assert metrics_of(directory)["minikafka_log_directory_full"] == {"/one": 0}
    directory.room.refused(OSError(errno.ENOSPC, "no room"), now_ms=0)
    assert metrics_of(directory)["minikafka_log_directory_full"] == {"/one": 1}
    directory.room.check(disk)
    assert metrics_of(directory)["minikafka_log_directory_full"] == {"/one": 0}


def test_a_failed_directory_is_counted_and_has_no_sizes() -> None:
    disk = MemoryDisk()
    disk.remaining_bytes = 1000
    one, two = DataDirectory(disk, "/one"), DataDirectory(disk, "/two")
    two.failure = OSError(errno.EIO, "broken")
    found = metrics_of(one, two)
    assert found["kafka_log_logmanager_offlinelogdirectorycount"] == {"": 1}
    assert found["kafka_log_logmanager_logdirectoryoffline"] == {"/one": 0, "/two": 1}
    assert found["minikafka_log_directory_free_bytes"] == {"/one": 1000}
    assert found["minikafka_log_directory_size_bytes"] == {"/one": disk.total_bytes("/one")}
