"""`FutureLogs`: a log moves to another data directory, and nothing is lost wherever the process or the power ends."""

from __future__ import annotations

import errno
from random import Random

import pytest
import trio
from support.logs import SMALL, Clock, append, append_bytes, append_marker, make_batch, memory_disk, read_all

from minikafka.protocol.errors import KafkaStorageError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.control import ControlType
from minikafka.storage.directories import directory_ids
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.disks.disk import MemoryDisk
from minikafka.storage.disks.disk_errors import is_passing
from minikafka.storage.disks.memory_disk import PowerLoss
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import LogContext
from minikafka.storage.steps import at_once

KEY = TopicPartition("a", 0)
TOPIC_ID = bytes(range(16))
ONE, TWO = "/one", "/two"


def manage(disk: MemoryDisk, *directories: str, clock: Clock | None = None) -> LogManager:
    found = LogManager(
        LogContext(disk, clock or Clock(), Random(1)),
        list(directories or (ONE, TWO)),
        config_of=lambda topic: SMALL,
        node_id=1,
        cluster_id="c",
    )
    found.load()
    return found


def opened(manager: LogManager) -> Log:
    return manager.create(KEY, topic_id=TOPIC_ID, is_new=False)


def begin(manager: LogManager) -> Log:
    """A future log in the other directory."""
    other = next(one for one in manager.directories if KEY not in one.logs)
    manager.futures.create(other, KEY, TOPIC_ID)
    return manager.futures.logs[KEY]


def copy(source: Log, future: Log, end_offset: int | None = None) -> None:
    """Copy records batch by batch, as a follower does."""
    while future.end_offset < (source.end_offset if end_offset is None else end_offset):
        found = source.read(future.end_offset, max_bytes=1)
        assert found is not None
        append_bytes(future, bytearray(found.read()), assign_offsets=False)


def swap(manager: LogManager, *, settle: bool = True) -> None:
    """Flush the copy, put it in the place of the log."""
    manager.futures.logs[KEY].flush()
    trio.run(manager.futures.checkpoint, KEY)
    swapped = manager.futures.swap(KEY)
    if settle:
        swapped.settle()
        manager.futures.settled(KEY, swapped)


def held_in(manager: LogManager) -> str:
    return next(one.path for one in manager.directories if KEY in one.logs)


def logs_on(disk: MemoryDisk) -> list[str]:
    """The directories of logs, without what is between the point and the dash of their names."""
    names = [f"{at}/{name}" for at in (ONE, TWO) for name in disk.list(at) if disk.is_directory(f"{at}/{name}")]
    return [f"{name.split('.')[0]}{'-' + name.rpartition('-')[2] if '.' in name else ''}" for name in names]


def test_a_copy_takes_the_place_of_the_log() -> None:
    disk = memory_disk()
    manager = manage(disk)
    log = opened(manager)
    for number in range(100):
        append(log, b"%d" % number, leader_epoch=number // 30)
    source = held_in(manager)
    future = begin(manager)
    copy(log, future)
    swap(manager)
    assert manager.logs[KEY] is future
    assert held_in(manager) != source
    assert not manager.futures.logs
    assert [value for _, value in read_all(future)] == [b"%d" % number for number in range(100)]
    assert future.epochs.entries == [(0, 0), (1, 30), (2, 60), (3, 90)]
    assert sorted(logs_on(disk)) == ["/one/a-0-delete", "/two/a-0"]
    append(future, b"more", leader_epoch=3)
    manager.close({KEY: 101})
    again = manage(disk)
    assert again.failures.clean
    assert read_all(again.logs[KEY])[-1] == (100, b"more")


def test_what_records_do_not_tell_moves_along() -> None:
    disk = memory_disk()
    manager = manage(disk)
    log = opened(manager)
    append_bytes(log, make_batch([b"a"], producer_id=7, producer_epoch=0, base_sequence=0))
    append_bytes(log, make_batch([b"b"], producer_id=8, producer_epoch=0, base_sequence=0, transactional=True))
    append_marker(log, ControlType.ABORT, producer_id=8)
    append_bytes(log, make_batch([b"c"], producer_id=9, producer_epoch=0, base_sequence=0, transactional=True))
    log.roll()
    log.high_watermark_advanced(4)
    log.epochs.assign(5, 4)
    manager.directories[0].checkpoints.write_cleaner_offset(KEY, 3)
    copy(log, begin(manager))
    log.advance_start_offset(1)
    swap(manager)
    moved = manager.logs[KEY]
    assert moved.start_offset == 1
    assert moved.epochs.entries == [(0, 1), (5, 4)]
    assert {one.producer_id for one in moved.producers} == {7, 8, 9}
    assert moved.last_stable_offset_unbounded == 3
    assert moved.aborted_transactions(0, 4) == [(8, 1)]
    assert manager.directories[1].checkpoints.cleaner_offsets.offsets == {KEY: 3}
    manager.close({KEY: 4})
    again = manage(disk).logs[KEY]
    assert {one.producer_id for one in again.producers} == {7, 8, 9}
    assert (again.start_offset, again.last_stable_offset_unbounded) == (1, 3)


def closed_while_copying() -> MemoryDisk:
    """The disk of a log of two records, of which the copy has one."""
    disk = memory_disk()
    manager = manage(disk)
    log = opened(manager)
    append(log, b"a")
    append(log, b"b")
    copy(log, begin(manager), 1)
    manager.close({KEY: 2})
    return disk


def test_a_copy_is_continued_after_a_restart_and_forgotten_when_it_is_discarded() -> None:
    disk = closed_while_copying()
    again = manage(disk)
    assert read_all(again.futures.logs[KEY]) == [(0, b"a")]
    assert read_all(opened(again)) == [(0, b"a"), (1, b"b")]
    again.futures.discard(KEY, 0)
    assert sorted(logs_on(disk)) == ["/one/a-0", "/two/a-0-delete"]
    again.close({KEY: 2})
    assert not manage(disk).futures.logs


def test_a_copy_is_not_the_log_while_the_directory_of_the_log_is_offline() -> None:
    disk = closed_while_copying()
    disk.fail("list", path=ONE, times=1 << 30)
    again = manage(disk)
    assert [one.path for one in again.healthy] == [TWO]
    two = again.directories[1].id
    with pytest.raises(KafkaStorageError, match="future log of a-0 is not used"):
        again.create(KEY, topic_id=TOPIC_ID, assigned=two, is_new=False)
    assert KEY in again.futures.logs


def test_logs_that_are_deleted_or_of_another_topic_take_their_copies_along() -> None:
    disk = memory_disk()
    manager = manage(disk)
    append(opened(manager), b"a")
    begin(manager)
    manager.delete(KEY)
    assert sorted(logs_on(disk)) == ["/one/a-0-delete", "/two/a-0-delete"]
    append(opened(manager), b"a")
    begin(manager)
    manager.set_aside(KEY)
    assert not manager.futures.logs
    assert sorted(logs_on(disk))[1::2] == ["/one/a-0-stray", "/two/a-0-stray"]


def test_a_directory_that_fails_takes_only_its_copies_along() -> None:
    disk = memory_disk()
    manager = manage(disk)
    log = opened(manager)
    append(log, b"a")
    future = begin(manager)
    disk.fail("write", path=TWO)
    with pytest.raises(KafkaStorageError):
        copy(log, future)
    assert not manager.futures.logs
    append(log, b"b")
    assert [one.path for one in manager.healthy] == [ONE]


class Scenario:
    """A log that moves there and back while it grows.

    Attributes:
        appended: every value, in order.
        flushed: how many of them a power failure must not take.
        kept: how many of them the end of the process must not take.
    """

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.appended: list[bytes] = []
        self.flushed = self.kept = 0

    def run(self) -> None:
        manager = manage(self.disk)
        self.append(opened(manager), 3)
        self.flush(manager.logs[KEY])
        for _ in range(2):
            log = manager.logs[KEY]
            future = begin(manager)
            copy(log, future, len(self.appended) - 1)
            self.append(log, 1)
            self.flush(log)
            copy(log, future)
            swap(manager, settle=False)
            self.append(manager.logs[KEY], 1)
            self.flush(manager.logs[KEY])
            unsettled = manager.logs[KEY].state.unflushed.settle
            assert unsettled is not None
            unsettled()
            manager.logs[KEY].state.unflushed.settle = None
            self.append(manager.logs[KEY], 1)
        manager.upkeep.write_checkpoints()
        manager.close({KEY: len(self.appended)})

    def append(self, log: Log, count: int) -> None:
        for _ in range(count):
            value = b"%d" % len(self.appended)
            self.appended.append(value)
            append(log, value)
            self.kept = len(self.appended)

    def flush(self, log: Log) -> None:
        count = len(self.appended)
        log.flush()
        self.flushed = count


@pytest.mark.slow
@pytest.mark.parametrize("is_power_failure", [False, True], ids=["kill", "power failure"])
@pytest.mark.parametrize("seed", range(3))
def test_wherever_a_move_ends_the_log_is_whole(seed: int, is_power_failure: bool) -> None:
    operations = 0
    while True:
        disk = memory_disk(f"{seed}/{operations}")
        disk.lose_power_after(operations)
        scenario = Scenario(disk)
        try:
            scenario.run()
        except PowerLoss:
            if is_power_failure:
                disk.crash()
            else:
                disk.lose_power_after(1 << 30)
        else:
            break
        kept = scenario.flushed if is_power_failure else scenario.kept
        if kept:
            manager = manage(disk)
            found = [value for _, value in read_all(opened(manager))]
            assert found == scenario.appended[: len(found)], f"operation {operations}"
            assert len(found) >= kept, f"operation {operations}: {logs_on(disk)}"
            if KEY in manager.futures.logs:
                copied = [value for _, value in read_all(manager.futures.logs[KEY])]
                assert copied == scenario.appended[: len(copied)], f"operation {operations}"
            manager.close({KEY: len(found)})
        operations += 1
    assert operations > 100


def copied(disk: MemoryDisk, end_offset: int) -> tuple[str, bytes, bytes]:
    """A killed node with a log of three flushed records, and a flushed copy that ends there; returns the path of the
    copy, the id of its directory, and that of the log's."""
    manager = manage(disk)
    log = opened(manager)
    for value in (b"a", b"b", b"c"):
        append(log, value)
    future = begin(manager)
    copy(log, future, end_offset)
    log.flush()
    future.flush()
    manager.upkeep.write_checkpoints()
    disk.unlock_all()
    return future.directory, manager.directories[1].id, manager.directories[0].id


def lose(disk: MemoryDisk) -> None:
    """The data directory of the log is replaced by an empty one."""
    disk.remove_tree(ONE)


@pytest.mark.parametrize("is_needed", [True, False], ids=["needed", "not needed"])
@pytest.mark.parametrize("assigned", ["its directory", "the lost directory", "LOST", "UNASSIGNED", "MIGRATING"])
def test_a_copy_without_its_log_is_used_if_it_has_all_records_or_others_have_them(
    assigned: str, *, is_needed: bool
) -> None:
    disk = memory_disk()
    path, its, lost = copied(disk, 2)
    lose(disk)
    ids = {"its directory": its, "the lost directory": lost} | {
        "LOST": directory_ids.LOST, "UNASSIGNED": directory_ids.UNASSIGNED, "MIGRATING": directory_ids.MIGRATING
    }  # fmt: skip
    for _ in range(2):
        manager = manage(disk)

        def create(manager: LogManager = manager) -> Log:
            return manager.create(KEY, topic_id=TOPIC_ID, assigned=ids[assigned], is_new=False, is_needed=is_needed)

        if is_needed and "LOST" in assigned.upper():
            with pytest.raises(KafkaStorageError, match=f"its copy {path} may lack acknowledged records: bring back"):
                create()
            assert disk.exists(path), "a later start may find the log"
        else:
            assert read_all(create()) == [(0, b"a"), (1, b"b")]
        manager.close({KEY: 2})


def test_a_copy_that_may_lack_records_is_served_after_what_the_error_says() -> None:
    disk = memory_disk()
    path, _, lost = copied(disk, 2)
    lose(disk)
    manager = manage(disk)
    with pytest.raises(KafkaStorageError, match=r"/two/a-0 without its file \.future"):
        manager.create(KEY, topic_id=TOPIC_ID, assigned=lost, is_new=False)
    manager.close({})
    disk.remove(f"{path}/.future")
    disk.rename(path, f"{TWO}/{KEY}")
    again = manage(disk)
    assert read_all(again.create(KEY, topic_id=TOPIC_ID, assigned=lost, is_new=False)) == [(0, b"a"), (1, b"b")]


@pytest.mark.parametrize("is_needed", [True, False])
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_a_corrupt_copy_without_its_log_is_neither_trusted_nor_truncated_at_any_start(
    *, is_clean: bool, is_needed: bool
) -> None:
    disk = memory_disk()
    path, its, _ = copied(disk, 3)
    lose(disk)
    file = disk.open(f"{path}/00000000000000000000.log")
    file.truncate(file.size_bytes // 2 + 7)
    file.close()
    size_bytes = disk.file_size(f"{path}/00000000000000000000.log")
    for _ in range(3):
        manager = manage(disk)
        with pytest.raises(KafkaStorageError, match="its copy is corrupt: a-0 is corrupt at offset 1") as failed:
            manager.create(KEY, topic_id=TOPIC_ID, assigned=its, is_new=False, is_needed=is_needed)
        assert f"move {path} away" in str(failed.value)
        if is_clean:
            manager.close({})
        else:
            manager.upkeep.write_checkpoints()
            disk.unlock_all()
    assert disk.file_size(f"{path}/00000000000000000000.log") == size_bytes
    assert not manage(disk).failures.clean


@pytest.mark.parametrize("what", ["log", "copy"])
def test_what_was_not_opened_since_the_start_is_checked_at_the_next(what: str) -> None:
    """It was killed, then stopped cleanly without having been opened: a clean start would trust the torn end."""
    disk = memory_disk()
    path, *_ = copied(disk, 3)
    at = path if what == "copy" else f"{ONE}/{KEY}"
    file = disk.open(f"{at}/00000000000000000000.log")
    file.append(bytes(30))
    file.close()
    disk.fail("open", path=f"{at}/0", code=errno.EMFILE, times=1 << 30)
    manager = manage(disk)
    assert KEY not in (manager.futures.logs if what == "copy" else manager.logs)
    manager.close({})
    disk.heal()
    again = manage(disk)
    assert not again.failures.clean
    log = again.futures.logs[KEY] if what == "copy" else again.logs[KEY]
    assert (log.report.truncated_bytes, log.end_offset, log.recovery_point) == (30, 3, 3)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.ENOMEM])
@pytest.mark.parametrize("is_alone", [False, True])
def test_a_copy_that_cannot_be_opened_at_the_start_is_opened_later(code: int, *, is_alone: bool) -> None:
    disk = memory_disk()
    manager = manage(disk)
    source = opened(manager)
    append(source, b"a")
    future = begin(manager)
    copy(source, future)
    future.flush()
    at = future.directory
    if is_alone:
        disk.remove_tree(source.directory)
    disk.fail("open", path=at, code=code, times=1 << 30)
    manager = manage(disk)
    assert manager.futures.waiting == [KEY]
    assert len(manager.healthy) == 2
    disk.heal()
    disk.fail("open", path=f"{at}/0", code=code)  # The first file of the log itself.
    with pytest.raises(KafkaStorageError, match="cannot be opened now") as failed:
        opened(manager) if is_alone else manager.futures.reopen(KEY)
    assert is_passing(failed.value.__cause__ or failed.value), "whoever opens it tries again"
    if is_alone:
        assert opened(manager).directory == f"{at.rpartition('/')[0]}/{KEY}"
    else:
        opened(manager)
        manager.futures.reopen(KEY)
        assert read_all(manager.futures.logs[KEY]) == [(0, b"a")]
    assert manager.futures.waiting == []


def test_a_copy_that_is_open_already_gets_a_changed_producer_expiration() -> None:
    clock = Clock()
    manager = manage(memory_disk(), clock=clock)
    append_bytes(opened(manager), make_batch([b"a"], producer_id=7, producer_epoch=0, base_sequence=0))
    future = begin(manager)
    copy(manager.logs[KEY], future)
    manager.set_producer_expiration(1000)
    clock.ms += 2000
    at_once(future.expire_producers())
    assert len(future.producers) == 0
