"""The metadata log of a quorum on disk: epochs, truncation, snapshots, the election state, crashes."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
import trio

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.metadata_log import encode_decision
from minikafka.controller.metadata.records import FeatureRecord, UnreadableRecord
from minikafka.controller.metadata.snapshot_encoding import encode_snapshot, records_of
from minikafka.controller.metadata.synced_offset import FILE_NAME
from minikafka.controller.quorum.raft_log import StoredRaftLog
from minikafka.controller.raft.election_state import ElectionState
from minikafka.controller.raft.log_interface import EpochEnd, SnapshotId
from minikafka.controller.raft.membership_records import control_batch
from minikafka.protocol.records.batch import assign, batches, encode_batch
from minikafka.protocol.records.control import ControlType
from minikafka.protocol.records.record import Record
from minikafka.storage.disks.memory_disk import MemoryDisk
from minikafka.storage.log_config import LogConfig

DIRECTORY = "/data/__cluster_metadata-0"
EPOCH_POSITION = 12
"""Of the leader epoch in a batch."""


def opened(disk: MemoryDisk) -> StoredRaftLog:
    return StoredRaftLog.open(disk, "/data", LogConfig(retention_ms=-1), now_ms=lambda: 0)


def batch(count: int = 1) -> bytes:
    return encode_decision([FeatureRecord("x", 1)] * count, 0)


def filled(disk: MemoryDisk) -> StoredRaftLog:
    """Offsets 0 to 2 of epoch 1, 3 and 4 of epoch 2, 5 to 9 of epoch 4."""
    log = opened(disk)
    assert log.append_as_leader(batch(3), 1) == 3
    assert log.append_as_leader(batch() + batch(), 2) == 5
    assert log.append_as_leader(batch(5), 4) == 10
    return log


def waited(wait: Callable[[], Awaitable[Any]]) -> None:
    trio.run(wait)


def test_a_new_log_is_empty_with_epoch_0() -> None:
    log = opened(MemoryDisk(Random(0)))
    assert (log.start_offset, log.end_offset, log.last_epoch, log.latest_snapshot()) == (0, 0, 0, None)
    assert log.end_offset_for(0) == log.end_offset_for(7) == EpochEnd(0, 0)
    assert log.read(0, 1000) == b""
    assert log.election_state() == ElectionState()


KAFKAS = bytes.fromhex("010c00106d657461646174612e76657273696f6e001e00")
"""A record of Kafka: the level of metadata.version."""


@pytest.mark.parametrize("base_offset", [0, 45])
@pytest.mark.parametrize("controls", [0, 1])
def test_a_log_of_apache_kafka_is_refused_before_anything_in_it_changes(base_offset: int, controls: int) -> None:
    disk = MemoryDisk(Random(0))
    disk.make_directory("/data")
    disk.make_directory(DIRECTORY)
    written = [encode_batch([Record(0, 0, None, KAFKAS)])]
    if controls:
        written.insert(0, control_batch([(ControlType.LEADER_CHANGE, bytes(4))], timestamp_ms=0))
    segment = bytearray(b"".join(written))
    position = 0
    for offset, one in enumerate(written, base_offset):
        segment[position : position + len(one)] = with_offset(one, offset)
        position += len(one)
    disk.write_atomically(f"{DIRECTORY}/{base_offset:020}.log", bytes(segment))
    for name in ("quorum-state", "leader-epoch-checkpoint"):
        disk.write_atomically(f"{DIRECTORY}/{name}", b"of Kafka")
    before = content(disk)
    with pytest.raises(UnreadableRecord, match=f"Apache Kafka has written the metadata log in {DIRECTORY}"):
        opened(disk)
    assert content(disk) == before


def content(disk: MemoryDisk) -> dict[str, bytes]:
    return {name: disk.read_bytes(f"{DIRECTORY}/{name}") for name in disk.list(DIRECTORY) if name != ".lock"}


def with_offset(data: bytes, offset: int) -> bytes:
    writable = bytearray(data)
    assign(writable, 0, offset, 1)
    return bytes(writable)


def test_a_vote_that_cannot_be_looked_at_is_not_forgotten() -> None:
    disk = MemoryDisk(Random(0))
    log = opened(disk)
    trio.run(log.persist, ElectionState(3, 1), [1, 2, 3])
    disk.fail("stat", path="quorum-state")
    with pytest.raises(OSError, match="injected"):
        log.election_state()
    assert log.election_state().epoch == 3


def test_an_epoch_ends_where_the_next_one_begins() -> None:
    log = filled(MemoryDisk(Random(0)))
    assert log.last_epoch == 4
    assert [log.end_offset_for(epoch) for epoch in range(6)] == [(0, 0), (1, 3), (2, 5), (2, 5), (4, 10), (4, 10)]


def test_whole_batches_are_read_and_at_least_one() -> None:
    log = filled(MemoryDisk(Random(0)))
    assert [one.base_offset for one in batches(log.read(0, 1))] == [0]
    assert [one.base_offset for one in batches(log.read(0, 1 << 20))] == [0, 3, 4, 5]
    two = len(log.read(3, 1)) * 2
    assert [one.base_offset for one in batches(log.read(3, two + 10))] == [3, 4]


def test_a_follower_appends_only_valid_batches_at_its_log_end() -> None:
    leader, log = filled(MemoryDisk(Random(0))), opened(MemoryDisk(Random(1)))
    data = leader.read(0, 1 << 20)
    for wrong in (leader.read(3, 1 << 20), data[:-1], data[:-1] + bytes([data[-1] ^ 1])):
        with pytest.raises(ValueError, match=r"batch of the metadata log|after the last batch"):
            log.append_as_follower(wrong)
        assert log.end_offset == 0
    assert log.append_as_follower(data) == 10
    assert log.read(0, 1 << 20) == data
    assert log.end_offset_for(3) == (2, 5)


def test_truncated_epochs_are_forgotten() -> None:
    log = filled(MemoryDisk(Random(0)))
    log.truncate_to(4)
    assert (log.end_offset, log.last_epoch) == (4, 2)
    assert log.end_offset_for(9) == (2, 4)
    assert log.append_as_leader(batch(), 5) == 5


def test_a_snapshot_replaces_the_records_before_its_offset() -> None:
    disk = MemoryDisk(Random(0))
    log = filled(disk)
    data = encode_snapshot(records_of(Image()))

    async def write() -> None:
        await log.sync()
        await log.write_snapshot(SnapshotId(5, 2), data)

    waited(write)
    for found in (log, opened_again(disk, log)):
        assert found.latest_snapshot() == (5, 2)
        assert (found.start_offset, found.start_epoch, found.end_offset, found.last_epoch) == (5, 2, 10, 4)
        assert found.end_offset_for(1) == found.end_offset_for(2) == EpochEnd(2, 5)
        assert found.read_snapshot(SnapshotId(5, 2), 3, 4) == (len(data), data[3:7])
        assert found.read_snapshot(SnapshotId(4, 2), 0, 4) is None


def opened_again(disk: MemoryDisk, log: StoredRaftLog) -> StoredRaftLog:
    log.close()
    disk.unlock_all()
    return opened(disk)


def damaged(data: bytes, synced: bytes) -> MemoryDisk:
    """A disk with such a log, and what was noted of it."""
    disk = MemoryDisk(Random(0))
    opened(disk).close()
    for path, content in ((f"{DIRECTORY}/{0:020d}.log", data), (f"{DIRECTORY}/{FILE_NAME}", synced)):
        file = disk.open(path)
        file.truncate(0)
        file.append(content)
        file.close()
    disk.unlock_all()
    return disk


def starts(disk: MemoryDisk) -> str:
    """Why a start is refused; "" if it is not."""
    try:
        opened(disk).close()
    except UnreadableRecord as error:
        return str(error)
    finally:
        disk.unlock_all()
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("is_noted", [True, False])
def test_a_voter_does_not_start_on_a_damaged_log_until_somebody_has_decided(is_noted: bool) -> None:
    """Whichever byte is damaged. Without a note it may be the last batch, which was torn before it was synced."""
    disk = MemoryDisk(Random(0))
    log = filled(disk)
    waited(log.sync)
    data, synced = bytes(log.read(0, 1 << 20)), disk.read_bytes(f"{DIRECTORY}/{FILE_NAME}")
    begins = [0]
    for batch in batches(data):
        begins.append(begins[-1] + len(batch.data))
    in_epochs = {begin + EPOCH_POSITION + number for begin in begins for number in range(4)}  # In no checksum.
    for position in sorted({*range(len(data))} - in_epochs):
        disk = damaged(data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :], synced)
        if not is_noted:
            disk.remove(f"{DIRECTORY}/{FILE_NAME}")
        said = starts(disk)
        if not is_noted and position >= begins[-2]:
            assert (said != "") == (position < begins[-2] + 8), position  # Its base offset is out of order.
            continue
        assert "If the other voters run, move" in said, position
        assert starts(disk), position
        if " or delete " in said:
            endings = said.partition(" or delete ")[2].partition(" in it")[0].replace("*", "").split(" and ")
            for name in disk.list(DIRECTORY):
                if name.endswith(tuple(endings)):
                    disk.remove(f"{DIRECTORY}/{name}")
            assert starts(disk) == "", position


@pytest.mark.parametrize("seed", range(100))
def test_a_power_failure_alone_is_no_damage(seed: int) -> None:
    """It takes batches that were not synced, also from the middle, and what was noted without a sync."""
    disk = MemoryDisk(Random(seed))
    log = opened(disk)
    for _ in range(seed % 5):
        log.append_as_leader(batch(), 1)
        waited(log.sync)
    for _ in range(4):
        log.append_as_leader(batch(50), 2)
    if seed % 3 == 0:
        log.truncate_to(seed % 5 + 50)
        log.append_as_leader(batch(50), 3)
    disk.crash()
    assert starts(disk) == ""
    log = opened(disk)
    assert log.end_offset >= seed % 5
    log.close()


def test_a_shorter_log_is_damage() -> None:
    disk = MemoryDisk(Random(0))
    log = filled(disk)
    waited(log.sync)
    data, synced = bytes(log.read(0, 1 << 20)), disk.read_bytes(f"{DIRECTORY}/{FILE_NAME}")
    assert "it ends at offset 3, and its records up to 10 were on the device" in starts(
        damaged(data[: len(next(iter(batches(data))).data)], synced)
    )
    assert starts(damaged(data, synced)) == ""
    assert starts(damaged(data, b"torn")) == ""
    log.truncate_to(4)
    assert starts(damaged(bytes(log.read(0, 1 << 20)), disk.read_bytes(f"{DIRECTORY}/{FILE_NAME}"))) == ""


def test_an_installed_snapshot_restarts_the_log() -> None:
    disk = MemoryDisk(Random(0))
    log = filled(disk)
    data = encode_snapshot(records_of(Image()))
    with pytest.raises(UnreadableRecord):
        log.start_at(SnapshotId(100, 6), data[:-1])
    assert log.end_offset == 10
    log.start_at(SnapshotId(100, 6), data)
    for found in (log, opened_again(disk, log)):
        assert (found.start_offset, found.end_offset, found.last_epoch) == (100, 100, 6)
        assert found.end_offset_for(6) == EpochEnd(6, 100)
    assert opened_again(disk, found).append_as_leader(batch(), 7) == 101


@pytest.mark.parametrize("installed", [True, False])
def test_a_snapshot_that_was_written_ahead_is_installed_now_or_at_the_next_start(installed: bool) -> None:
    disk = MemoryDisk(Random(0))
    log = filled(disk)
    waited(log.sync)
    data, snapshot = encode_snapshot(records_of(Image())), SnapshotId(100, 6)

    async def prepare() -> None:
        await log.prepare(snapshot, data)
        await log.prepare(snapshot, data)  # The response came twice, since the first one waited for the disk.

    waited(prepare)
    assert (log.end_offset, log.latest_snapshot()) == (10, None)
    if installed:
        syncs = disk.calls["sync"]
        log.start_at(snapshot, data)
        assert disk.calls["sync"] == syncs
        assert (log.start_offset, log.end_offset) == (100, 100)
    disk.crash()
    found = opened(disk)
    assert (found.start_offset, found.end_offset, found.last_epoch) == (100, 100, 6)


@pytest.mark.parametrize("seed", range(30))
def test_a_crash_while_a_snapshot_is_installed_leaves_the_old_log_or_the_new_one(seed: int) -> None:
    disk = MemoryDisk(Random(seed))
    log = filled(disk)
    waited(log.sync)
    log.start_at(SnapshotId(7, 3), encode_snapshot(records_of(Image())))
    disk.crash()
    found = opened(disk)
    assert (found.start_offset, found.end_offset, found.last_epoch) == (7, 7, 3)


def test_a_log_that_lost_its_snapshot_is_refused() -> None:
    disk = MemoryDisk(Random(0))
    log = filled(disk)

    async def write() -> None:
        await log.sync()
        await log.write_snapshot(SnapshotId(10, 4), encode_snapshot(records_of(Image())))

    waited(write)
    log.close()
    disk.remove(f"{DIRECTORY}/{log_name(10, 4)}")
    disk.unlock_all()
    with pytest.raises(UnreadableRecord, match="starts at offset 10, but the newest snapshot ends at"):
        opened(disk)


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-5], lambda data: data[:9] + b"!" + data[10:]])
def test_a_damaged_snapshot_is_named_and_the_error_says_what_to_do(damage: Callable[[bytes], bytes]) -> None:
    disk = MemoryDisk(Random(0))
    log = filled(disk)

    async def write() -> None:
        await log.sync()
        await log.write_snapshot(SnapshotId(10, 4), encode_snapshot(records_of(Image())))

    waited(write)
    log.close()
    path = f"{DIRECTORY}/{log_name(10, 4)}"
    disk.write_atomically(path, damage(disk.read_bytes(path)))
    disk.unlock_all()
    with pytest.raises(UnreadableRecord, match=f"{path}: metadata snapshot .* restore a backup of {DIRECTORY}"):
        opened(disk)


def log_name(offset: int, epoch: int) -> str:
    return f"{offset:020d}-{epoch:010d}.checkpoint"


def test_the_election_state_is_durable_and_an_unknown_version_stops_the_start() -> None:
    disk = MemoryDisk(Random(0))
    log = opened(disk)

    async def persist() -> None:
        await log.persist(ElectionState(7, voted_for=2), [1, 2, 3])

    waited(persist)
    disk.crash()
    log = opened(disk)
    assert log.election_state() == ElectionState(7, voted_for=2)
    disk.write_atomically(f"{DIRECTORY}/quorum-state", b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"data_version":9}')
    with pytest.raises(UnreadableRecord, match=r"quorum-state has version 9.*only voter, delete the file; otherwise"):
        log.election_state()


def test_a_log_without_an_election_state_continues_in_its_last_epoch() -> None:
    """As lone nodes of version 0.1 wrote it."""
    disk = MemoryDisk(Random(0))
    log = opened(disk)
    log.append_as_leader(batch(), 3)
    log.close()
    disk.unlock_all()
    log = opened(disk)
    assert log.end_offset == 1
    assert log.election_state() == ElectionState(3)
