"""Errors that pass: a full disk, no descriptors, no memory. The log stays open, and nothing half-done is left."""

from __future__ import annotations

import errno
from contextlib import suppress
from itertools import count
from random import Random

import pytest
import trio
from support.logs import Clock, append, append_marker, check_indexes, memory_disk, open_log, read_all

from minikafka.protocol.errors import KafkaStorageError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.control import ControlType
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.disks.disk_errors import FailedSync, is_full, is_passing
from minikafka.storage.disks.memory_disk import MemoryDisk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import LogContext

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=0, segment_index_bytes=240)
CODES = [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM]


def test_errors_of_a_sync_never_pass() -> None:
    assert all(is_passing(OSError(code, "")) for code in CODES)
    assert [is_full(OSError(code, "")) for code in CODES] == [True, True, False, False, False]
    assert not any(is_passing(FailedSync(code, "")) or is_full(FailedSync(code, "")) for code in CODES)
    assert not is_passing(OSError(errno.EIO, ""))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("kind", ["open", "write", "truncate", "rename", "read"])
def test_an_append_that_fails_at_any_operation_leaves_nothing_and_can_be_repeated(kind: str, code: int) -> None:
    refused = 0
    for end in range(16):
        for skipped in count():
            disk = memory_disk()
            log = open_log(disk, config=SMALL)
            for offset in range(end):
                assert _appended(log, offset)
            disk.fail(kind, skip=skipped, code=code)
            succeeded = _appended(log, end)
            disk.heal()
            if succeeded:
                break
            refused += 1
            assert (log.failure, log.end_offset) == (None, end)
            _check(log, end)
            assert _appended(log, end)
            _check(log, end + 1)
            log.flush()
            disk.crash()
            _check(open_log(disk, config=SMALL, recovery_point=end + 1), end + 1)
    assert refused > 0 or kind in ("read", "rename")


def _appended(log: Log, offset: int) -> bool:
    try:
        append(log, b"%d" % offset * 60, leader_epoch=offset // 7)
    except KafkaStorageError:
        return False
    return True


def _check(log: Log, end: int) -> None:
    assert [offset for offset, _ in read_all(log)] == [*range(end)]
    assert [log.epochs.epoch_of(offset) for offset in range(end)] == [offset // 7 for offset in range(end)]
    check_indexes(log)


@pytest.mark.parametrize("seed", range(20))
def test_a_log_on_a_disk_that_is_full_now_and_then_has_what_was_appended(seed: int) -> None:
    random = Random(seed)
    disk = memory_disk()
    log = open_log(disk, config=SMALL)
    written: list[bytes] = []
    refused = 0
    for number in range(120):
        if number % 10 == 0:
            disk.remaining_bytes = random.choice([0, 50, 300, 3000])
        value = b"%d " % number * random.randint(1, 60)
        try:
            append(log, value)
            written.append(value)
        except KafkaStorageError:
            refused += 1
        if random.random() < 0.1:
            with suppress(KafkaStorageError):  # The epochs may not be written yet.
                log.flush()
    assert refused > 10
    assert [value for _, value in read_all(log)] == written
    with suppress(OSError):  # Recovery may need room.
        open_log(disk, config=SMALL, recovery_point=log.recovery_point)
    disk.remaining_bytes = 1 << 20
    again = open_log(disk, config=SMALL, recovery_point=log.recovery_point)
    assert [value for _, value in read_all(again)] == written
    assert not again.report.damage


@pytest.mark.parametrize("path", ["leader-epoch", ".snapshot", "/data/flights-0"])
def test_a_flush_without_descriptors_is_repeated_as_a_whole(path: str) -> None:
    disk = memory_disk()
    log = open_log(disk)
    append(log, b"a", leader_epoch=3, producer_id=7, producer_epoch=0, base_sequence=0)
    log.roll()
    append(log, b"b", leader_epoch=4)
    disk.fail("sync", path=path, code=errno.EMFILE)
    with pytest.raises(KafkaStorageError, match="cannot be written"):
        trio.run(log.flush_async)
    assert (log.recovery_point, log.failure) == (0, None)
    trio.run(log.flush_async)
    assert log.recovery_point == 2
    disk.crash()
    again = open_log(disk, recovery_point=2)
    assert again.epochs.entries == [(3, 0), (4, 1)]
    assert [producer.producer_id for producer in again.producers] == [7]


def test_an_epoch_that_could_not_be_written_is_written_by_the_next_flush() -> None:
    disk = memory_disk()
    log = open_log(disk)
    append(log, b"a")
    disk.fail("rename", path="leader-epoch", code=errno.ENOSPC)
    log.epochs.assign(5, log.end_offset)
    append(log, b"b", leader_epoch=5)
    with pytest.raises(KafkaStorageError, match="cannot be written"):
        log.flush()
    assert (log.recovery_point, log.failure) == (0, None)
    log.flush()
    disk.crash()
    assert open_log(disk, recovery_point=2).epochs.entries == [(0, 0), (5, 1)]


@pytest.mark.parametrize("kind", ["open", "write"])
def test_an_aborted_transaction_that_could_not_be_indexed_is_indexed_by_the_next_flush(kind: str) -> None:
    disk = memory_disk()
    log = open_log(disk)
    for producer in (7, 8):
        disk.fail(kind, path=".txnindex", code=errno.ENOSPC)
        append(log, b"a", producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)
        append_marker(log, ControlType.ABORT, producer_id=producer)
    assert log.failure is None
    assert log.aborted_transactions(0, 4) == [(7, 0), (8, 2)]
    log.truncate_to(4)
    disk.heal()
    log.flush()
    disk.crash()
    again = open_log(disk, recovery_point=4)
    assert again.aborted_transactions(0, 4) == [(7, 0), (8, 2)]


@pytest.mark.parametrize("seed", range(5))
def test_the_name_of_a_new_transaction_index_is_flushed(seed: int) -> None:
    """Or a power failure would lose the file, and read_committed consumers see what was aborted."""
    disk = memory_disk(seed)
    log = open_log(disk, config=SMALL)
    append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.flush()
    append_marker(log, ControlType.ABORT, producer_id=7)
    append(log, b"b")
    append(log, b"c")  # Recovery reads the last batches again, not the marker.
    log.flush()
    disk.crash()
    assert open_log(disk, config=SMALL, recovery_point=4).aborted_transactions(0, 4) == [(7, 0)]


def test_a_truncation_is_not_left_half_done() -> None:
    disk = memory_disk()
    log = open_log(disk, config=SMALL)
    for number in range(10):
        append(log, b"%d" % number * 50)
    disk.fail("truncate", skip=1, code=errno.EMFILE)
    with pytest.raises(KafkaStorageError, match="interrupted half-way"):
        log.truncate_to(4)
    assert log.failure is not None


# -- data directories -------------------------------------------------------------------------------------------------


def managed(disk: MemoryDisk, *paths: str) -> LogManager:
    manager = LogManager(LogContext(disk, Clock(), Random(1)), [*paths], node_id=1, cluster_id="one")
    manager.load()
    return manager


def key(number: int) -> TopicPartition:
    return TopicPartition("flights", number)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("kind", ["open", "write", "rename", "mkdir"])
def test_a_log_that_could_not_be_made_can_be_made_later(kind: str, code: int) -> None:
    disk = MemoryDisk()
    manager = managed(disk, "/data")
    append(manager.create(key(0), topic_id=b"1" * 16), b"a")
    disk.fail(kind, path=str(key(1)), code=code)
    with pytest.raises(KafkaStorageError, match="/data cannot be written"):
        manager.create(key(1), topic_id=b"1" * 16)
    assert manager.directories[0].failure is None
    append(manager.create(key(1), topic_id=b"1" * 16), b"b")
    assert [read_all(log) for log in manager.logs.values()] == [[(0, b"a")], [(0, b"b")]]


def test_a_full_directory_gets_no_new_logs_until_it_has_room() -> None:
    disk = MemoryDisk()
    manager = managed(disk, "/a", "/b")
    full, other = manager.directories
    disk.fail("write", path="/a/", times=3, code=errno.ENOSPC)
    append(manager.create(key(0), topic_id=b"1" * 16), b"a")
    assert key(0) in other.logs, "what is left of the log in the full directory is deleted"
    assert not disk.exists(f"/a/{key(0)}")
    assert full.room.is_full
    sizes = full.sizes()
    assert sizes is not None
    assert sizes[1] == 0
    for number in (1, 2, 3):
        manager.create(key(number), topic_id=b"1" * 16)
    assert len(other.logs) == 4
    assert not manager.upkeep.check_room()
    assert full.room.is_full
    disk.heal()
    assert manager.upkeep.check_room()
    assert not full.room.is_full
    assert full.sizes() == (disk.total_bytes("/a"), disk.free_bytes("/a"))
    assert ".room" not in disk.list("/a")


def test_a_stop_whose_checkpoints_could_not_be_written_is_not_clean() -> None:
    disk = MemoryDisk()
    manager = managed(disk, "/data")
    append(manager.create(key(0), topic_id=b"1" * 16), b"a")
    disk.fail("write", path="recovery-point", code=errno.ENOSPC)
    manager.close({})
    again = managed(disk, "/data")
    assert not again.failures.clean
    assert read_all(again.logs[key(0)]) == [(0, b"a")]


def test_a_log_that_could_not_be_opened_at_the_start_is_opened_later() -> None:
    disk = MemoryDisk()
    manager = managed(disk, "/data")
    for number in range(3):
        append(manager.create(key(number), topic_id=b"1" * 16), b"a")
    disk.fail("open", path=f"{key(1)}/0", code=errno.ENOMEM)
    manager = managed(disk, "/data")
    assert set(manager.logs) == {key(0), key(2)}
    assert manager.directories[0].failure is None
    assert read_all(manager.create(key(1), topic_id=b"1" * 16)) == [(0, b"a")]


def test_a_directory_whose_marker_could_not_be_removed_is_not_used() -> None:
    """A power failure would bring the marker back, and the next start trust logs that were written meanwhile."""
    disk = MemoryDisk()
    managed(disk, "/data").close({})
    disk.fail("sync", path="/data", code=errno.ENOSPC)
    manager = LogManager(LogContext(disk, Clock(), Random(1)), ["/data"], node_id=1, cluster_id="one")
    with pytest.raises(KafkaStorageError, match="no data directory is usable"):
        manager.load()
