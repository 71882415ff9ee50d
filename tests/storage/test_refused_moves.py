"""A move to another data directory that is refused or fails at any step leaves nothing to stumble on later.

Each operation of the disk fails in a move of its own: once without room, without descriptors, or for good. The move is
tried again, or the node is restarted at once, or both.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from random import Random

import pytest
import trio
from structlog.testing import capture_logs
from support.logs import SMALL, Clock, append, append_bytes, memory_disk, read_all

from minikafka.protocol.errors import KafkaError, KafkaStorageError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.disks.checkpoint_files import write_topic_id
from minikafka.storage.disks.memory_disk import MemoryDisk
from minikafka.storage.logs.log_context import LogContext

KEY = TopicPartition("a", 0)
TOPIC_ID, OTHER_ID = b"t" * 16, b"o" * 16
ONE, TWO = "/one", "/two"
VALUES = [(offset, b"%d" % offset) for offset in range(5)]
KINDS = {errno.ENOSPC: {"open", "write", "mkdir"}, errno.EMFILE: {"open", "list"}, errno.EIO: None}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Hundreds of errors are not printed."""
    with capture_logs():
        yield


class FaultyDisk(MemoryDisk):
    """One call of the kinds that can fail with a code fails: that with a number, counted from `arm` on."""

    code, number, failed = 0, -1, ""

    def arm(self, code: int, number: int) -> None:
        self.code, self.number = code, number

    def call(self, kind: str, path: str) -> None:
        super().call(kind, path)
        kinds = KINDS.get(self.code)
        if self.code and (kinds is None or kind in kinds):
            self.number -= 1
            if self.number == -1:
                self.failed = f"{kind} {path}"
                raise OSError(self.code, "injected fault", path)


def manage(disk: MemoryDisk, *more: str) -> LogManager:
    found = LogManager(
        LogContext(disk, Clock(), Random(1)),
        [ONE, TWO, *more],
        config_of=lambda topic: SMALL,
        node_id=1,
        cluster_id="c",
    )
    found.load()
    found.create(KEY, topic_id=TOPIC_ID, is_new=False)
    return found


def started(disk: MemoryDisk) -> LogManager:
    manager = manage(disk)
    for _, value in VALUES:
        append(manager.logs[KEY], value)
    manager.logs[KEY].flush()
    manager.upkeep.write_checkpoints()
    return manager


def move(manager: LogManager) -> None:
    """The whole move to the second directory. Raises KafkaError."""
    source = manager.logs[KEY]
    found = manager.futures.logs.get(KEY)
    if found is None or found.topic_id != TOPIC_ID:  # As `ReplicaMoves.resume` does.
        manager.futures.discard(KEY, 0)
        manager.futures.create(manager.directories[1], KEY, TOPIC_ID)
    future = manager.futures.logs[KEY]
    while future.end_offset < source.end_offset:
        records = source.read(future.end_offset, max_bytes=1)
        assert records is not None
        append_bytes(future, bytearray(records.read()), assign_offsets=False)
    future.flush()
    trio.run(manager.futures.checkpoint, KEY)
    swap = manager.futures.swap(KEY)
    swap.settle()
    manager.futures.settled(KEY, swap)


def names(disk: MemoryDisk, suffix: str) -> list[str]:
    return [f"{at}/{name}" for at in (ONE, TWO) for name in disk.list(at) if name.endswith(suffix)]


def check(disk: MemoryDisk, where: str) -> LogManager:
    """After a start all is there, in one directory, and both directories serve."""
    manager = manage(disk)
    assert [one.failure for one in manager.directories] == [None, None], where
    assert read_all(manager.logs[KEY]) == VALUES, where
    assert not manager.logs[KEY].report.damage
    return manager


def refusals(code: int) -> Iterator[tuple[FaultyDisk, LogManager, bool]]:
    """For each operation of a new future log: a disk on which it has failed, and whether the directory can be used."""
    number = 0
    while True:
        disk = FaultyDisk(Random(1))
        manager = started(disk)
        disk.arm(code, number)
        try:
            manager.futures.create(manager.directories[1], KEY, TOPIC_ID)
        except KafkaStorageError:
            disk.arm(0, -1)
            yield disk, manager, manager.directories[1].failure is None
        else:
            assert number > 1
            return
        number += 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_move_that_is_refused_leaves_no_copy(code: int) -> None:
    for disk, manager, can_be_used in refusals(code):
        assert can_be_used
        assert names(disk, "-future") == [], disk.failed
        assert manager.futures.partitions == []
        disk.unlock_all()
        assert check(disk, disk.failed).futures.partitions == [], "a start does not carry it out"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_move_that_was_refused_can_be_made_later(code: int) -> None:
    for disk, manager, _ in refusals(code):
        move(manager)
        for _ in range(2):
            disk.unlock_all()
            assert KEY in check(disk, disk.failed).directories[1].logs
        assert names(disk, "-future") == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.EIO])
def test_a_move_that_fails_at_any_step_is_made_after_a_restart(code: int) -> None:
    number = 0
    while True:
        disk = FaultyDisk(Random(1))
        manager = started(disk)
        disk.arm(code, number)
        try:
            move(manager)
        except (KafkaError, OSError, KeyError):
            pass
        disk.arm(0, -1)
        disk.unlock_all()
        if not disk.failed:
            break
        manager = check(disk, disk.failed)
        if KEY not in manager.directories[1].logs:
            move(manager)
        disk.unlock_all()
        assert KEY in check(disk, disk.failed).directories[1].logs
        assert names(disk, "-future") == [], disk.failed
        number += 1
    assert number > 3


@pytest.mark.parametrize("topic_id", [TOPIC_ID, None], ids=["same", "no"])
def test_a_copy_beside_its_log_is_deleted_at_the_start(topic_id: bytes | None) -> None:
    disk = memory_disk()
    started(disk).close({KEY: 5})
    left = f"{ONE}/a-0.{'0' * 32}-future"
    disk.make_directory(left)
    disk.open(f"{left}/.future", create=True).close()
    if topic_id is not None:
        write_topic_id(disk, f"{left}/partition.metadata", topic_id, sync=False)
    assert check(disk, "start").futures.partitions == []
    assert names(disk, "-future") == []


def test_what_has_the_name_of_a_log_that_moves_there_is_set_aside() -> None:
    disk = memory_disk()
    manager = started(disk)
    disk.make_directory(f"{TWO}/a-0")
    write_topic_id(disk, f"{TWO}/a-0/partition.metadata", OTHER_ID, sync=False)
    move(manager)
    assert len(names(disk, "-stray")) == 1
    disk.unlock_all()
    assert KEY in check(disk, "start").directories[1].logs


def test_the_directory_that_cannot_be_synced_fails_not_that_of_the_new_copy() -> None:
    disk = memory_disk()
    manager = manage(disk, "/three")
    manager.futures.create(manager.directories[1], KEY, TOPIC_ID)
    manager.futures.discard(KEY, 0)
    disk.fail("sync", path=TWO)
    with pytest.raises(KafkaStorageError):
        manager.futures.create(manager.directories[2], KEY, TOPIC_ID)
    assert [one.failure is None for one in manager.directories] == [True, False, True]
