"""The metadata log of a lone node and its data directories: ownership, damage, snapshots."""

from pathlib import Path
from random import Random

import pytest
import trio.testing
from support import controllers
from support.controllers import create, image_of, with_controller
from support.quorum import first_of

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import UnreadableRecord
from minikafka.controller.quorum.raft_log import StoredRaftLog
from minikafka.controller.quorum_controller import QuorumController
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record as LogRecord
from minikafka.storage.directories.directory_identity import WrongDirectory
from minikafka.storage.disks.checkpoint_files import META_PROPERTIES, write_properties
from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.disks.memory_disk import MemoryDisk
from minikafka.storage.log_config import LogConfig

CLUSTER = "q_K-35fHQESH_S3kC6HDJw"
DIRECTORY = "/data/__cluster_metadata-0"


def formatted(directory: str = "/data", *, node_id: int = 1, cluster_id: str = CLUSTER) -> MemoryDisk:
    """A disk with a directory formatted by Kafka's storage tool."""
    disk = MemoryDisk(Random(0))
    add_directory(disk, directory, node_id=node_id, cluster_id=cluster_id)
    return disk


def add_directory(disk: MemoryDisk, directory: str, *, node_id: int = 1, cluster_id: str = CLUSTER) -> None:
    disk.make_directory(directory)
    properties = {"node.id": str(node_id), "version": "1", "cluster.id": cluster_id}
    write_properties(disk, f"{directory}/{META_PROPERTIES}", properties)


def started(disk: MemoryDisk, **given: str) -> Image:
    """The metadata after a start. Raises the error that ended it."""
    try:
        return image_of(disk, **given)
    except ExceptionGroup as group:
        raise first_of(group) from None


def test_a_formatted_directory_keeps_its_cluster() -> None:
    assert started(formatted()).cluster_id == CLUSTER


def test_a_directory_of_another_node_is_refused() -> None:
    with pytest.raises(WrongDirectory, match=r"/data belongs to node 3, but node\.id is 1"):
        started(formatted(node_id=3))


def test_directories_of_two_clusters_are_refused() -> None:
    disk = formatted("/a")
    add_directory(disk, "/b", cluster_id="AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(WrongDirectory, match="/b belongs to cluster AAAAAAAAAAAAAAAAAAAAAQ, other directories"):
        started(disk, log_dirs="/a,/b")


@pytest.mark.parametrize("snapshots", [False, True])
@pytest.mark.parametrize("is_named", [False, True])
def test_a_metadata_log_of_another_cluster_is_refused_before_anything_is_written(
    snapshots: bool, is_named: bool
) -> None:
    disk = MemoryDisk(Random(0))
    every = "1" if snapshots else "1000000"
    of_log = with_controller(disk, _two_topics, metadata_log_max_record_bytes_between_snapshots=every)[0].cluster_id
    assert of_log is not None
    if is_named:
        add_directory(disk, "/data", cluster_id=of_log)
    add_directory(disk, "/other")
    before = files_of(disk)
    with pytest.raises(WrongDirectory, match=rf"belongs? to cluster {CLUSTER if not is_named else of_log}, .*log.dir"):
        controllers.started(disk, log_dirs="/other", metadata_log_dir="/data")
    assert files_of(disk) == before


def files_of(disk: MemoryDisk) -> dict[str, bytes]:
    paths = [f"{directory}/{name}" for directory in ("/data", "/other", DIRECTORY) for name in disk.list(directory)]
    return {path: disk.read_bytes(path) for path in paths if path.endswith((".log", "-state", ".checkpoint"))}


def test_the_metadata_log_has_a_directory_of_its_own_if_it_is_named() -> None:
    disk = MemoryDisk(Random(0))
    started(disk, metadata_log_dir="/metadata")
    assert disk.exists("/metadata/__cluster_metadata-0")
    assert not disk.exists(DIRECTORY)


def test_two_processes_do_not_share_a_metadata_log(tmp_path: Path) -> None:
    def opened() -> StoredRaftLog:
        return StoredRaftLog.open(RealDisk(), str(tmp_path), LogConfig(), now_ms=lambda: 0)

    first = opened()
    with pytest.raises(BlockingIOError):
        opened()
    first.close()


def append(disk: MemoryDisk, *values: bytes) -> None:
    """Append a batch with other values to the log."""
    log = StoredRaftLog.open(disk, "/data", LogConfig(), now_ms=lambda: 0)
    records = [LogRecord(index, 0, None, value) for index, value in enumerate(values)]
    log.append_as_leader(encode_batch(records), epoch=1)
    log.close()


def test_a_log_of_apache_kafka_is_refused() -> None:
    disk = MemoryDisk(Random(0))
    append(disk, bytes.fromhex("010c00106d657461646174612e76657273696f6e001e00"))
    with pytest.raises(UnreadableRecord, match=r"Apache Kafka has written the metadata log in"):
        started(disk)


def test_an_unknown_record_stops_the_start_with_its_offset() -> None:
    disk = MemoryDisk(Random(0))
    started(disk)
    log = StoredRaftLog.open(disk, "/data", LogConfig(), now_ms=lambda: 0)
    end = log.end_offset
    log.close()
    append(disk, b"\x82\xa4kind\xa9spaceship\xa7version\x00")
    with pytest.raises(UnreadableRecord, match=f"offset {end}: .*'spaceship'"):
        started(disk)


async def _two_topics(controller: QuorumController) -> None:
    await create(controller, "a")
    await create(controller, "b")


def test_damage_in_the_middle_stops_the_start() -> None:
    disk = MemoryDisk(Random(0))
    with_controller(disk, _two_topics)
    file = disk.open(f"{DIRECTORY}/{0:020d}.log")
    file.pwrite(file.size_bytes // 2, b"rotten")
    with pytest.raises(UnreadableRecord, match="is damaged"):
        started(disk)


def test_a_torn_end_is_truncated() -> None:
    disk = MemoryDisk(Random(0))
    with_controller(disk, _two_topics)
    disk.open(f"{DIRECTORY}/{0:020d}.log").append(bytes(100))
    assert list(started(disk).topics) == ["a", "b"]


def test_a_damaged_snapshot_stops_the_start() -> None:
    disk = MemoryDisk(Random(0))
    with_controller(disk, _two_topics, metadata_log_max_record_bytes_between_snapshots="1")
    snapshot = sorted(name for name in disk.list(DIRECTORY) if name.endswith(".checkpoint"))[-1]
    disk.open(f"{DIRECTORY}/{snapshot}").pwrite(40, b"rotten")
    with pytest.raises(UnreadableRecord, match="snapshot is damaged"):
        started(disk)


def test_a_log_that_ends_before_its_snapshot_restarts_after_it() -> None:
    async def two_topics_in_a_snapshot(controller: QuorumController) -> None:
        await _two_topics(controller)
        await trio.testing.wait_all_tasks_blocked()  # The snapshot is written in steps.

    disk = MemoryDisk(Random(0))
    with_controller(disk, two_topics_in_a_snapshot, metadata_log_max_record_bytes_between_snapshots="1")
    for name in disk.list(DIRECTORY):
        if not name.endswith(".checkpoint"):
            disk.remove(f"{DIRECTORY}/{name}")
    controller, _ = with_controller(disk, lambda controller: create(controller, "c"))
    assert list(controller.image.topics) == ["a", "b", "c"]
    assert started(disk) == controller.image
