"""What becomes of the copy of a log when its replica is opened again: it is continued, made anew, or discarded."""

from __future__ import annotations

import errno
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.logs import SMALL, Clock, append, memory_disk

from minikafka.broker.replication.replica_moves import ReplicaMoves
from minikafka.controller.metadata.image import Image
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.disks.checkpoint_files import write_topic_id
from minikafka.storage.disks.memory_disk import MemoryDisk
from minikafka.storage.logs.log_context import LogContext

KEY = TopicPartition("a", 0)
TOPIC_ID, OTHER_ID = b"t" * 16, b"o" * 16
ONE, TWO, THREE, FOUR = "/one", "/two", "/three", "/four"
STATES = ["complete", "corrupt", "without topic id", "of another topic"]


def manage(disk: MemoryDisk, *more: str) -> LogManager:
    found = LogManager(
        LogContext(disk, Clock(), Random(1 + len(more))),
        [ONE, TWO, *more],
        config_of=lambda topic: SMALL,
        node_id=1,
        cluster_id="c",
    )
    found.load()
    found.create(KEY, topic_id=TOPIC_ID, is_new=False)
    return found


def with_a_copy(state: str) -> LogManager:
    """A node that was started with a copy in this state."""
    return manage(disk_with_a_copy(state))


def disk_with_a_copy(state: str) -> MemoryDisk:
    """The disk of a node that was stopped during a move, with a copy in this state."""
    disk = memory_disk()
    manager = manage(disk)
    manager.futures.create(manager.directories[1], KEY, TOPIC_ID)
    future = manager.futures.logs[KEY]
    for value in (b"0", b"1", b"2"):
        append(future, value)
    future.flush()
    path = future.directory
    manager.close({})
    if state == "corrupt":
        damage(disk, path)
    elif state == "without topic id":
        disk.remove(f"{path}/partition.metadata")
    elif state == "of another topic":
        write_topic_id(disk, f"{path}/partition.metadata", OTHER_ID, sync=False)
    return disk


def damage(disk: MemoryDisk, path: str) -> None:
    """The copy at this path has lost half of what was flushed."""
    file = disk.open(f"{path}/00000000000000000000.log")
    file.truncate(file.size_bytes // 2 + 7)
    file.close()


def resume(manager: LogManager) -> ReplicaMoves:
    partition = SimpleNamespace(topic_partition=KEY, topic_id=TOPIC_ID, log=manager.logs[KEY])
    partitions = SimpleNamespace(get=lambda *key: partition)
    moves = ReplicaMoves(1, Image(), manager, cast(Any, partitions), cast(Any, None), lambda *placed: None)
    moves.resume(cast(Any, partition))
    return moves


def copies_on(disk: MemoryDisk) -> list[str]:
    """The names of the directories of copies in the second directory that were not discarded."""
    return [name for name in disk.list(TWO) if name.endswith("-future")]


@pytest.mark.parametrize(
    ("state", "end_offset"),
    list(zip(STATES, [3, 0, 0, None], strict=True)),
)
def test_a_copy_is_continued_or_made_anew(state: str, end_offset: int | None) -> None:
    manager = with_a_copy(state)
    moves = resume(manager)
    future = manager.futures.logs.get(KEY)
    assert (None if future is None else future.end_offset) == end_offset
    assert (moves.target_of(KEY) is not None) == (end_offset is not None)
    assert manager.futures.directory_of(KEY) is (None if end_offset is None else manager.directories[1])
    assert manager.logs[KEY].directory == f"{ONE}/a-0"


def test_a_copy_in_the_directory_of_its_log_is_discarded() -> None:
    manager = manage(memory_disk())
    manager.futures.create(manager.directories[0], KEY, TOPIC_ID)
    moves = resume(manager)
    assert manager.futures.partitions == []
    assert moves.target_of(KEY) is None
    assert manager.logs[KEY].directory == f"{ONE}/a-0"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_copy_that_cannot_be_opened_now_is_continued_or_made_anew_later(code: int, *, is_damaged: bool) -> None:
    disk = disk_with_a_copy("complete")
    before = copies_on(disk)
    disk.fail("open", path=f"{TWO}/{before[0]}", code=code, times=2)
    manager = manage(disk)
    moves = resume(manager)
    manager.upkeep.check_room()
    moves.resume_waiting()
    assert (manager.futures.waiting, copies_on(disk)) == ([KEY], before)
    if is_damaged:
        damage(disk, f"{TWO}/{before[0]}")
    manager.upkeep.check_room()
    moves.resume_waiting()
    assert manager.futures.logs[KEY].end_offset == (0 if is_damaged else 3)
    assert (copies_on(disk) == before) != is_damaged
    assert moves.target_of(KEY) == manager.directories[1].id


@pytest.mark.parametrize("state", STATES[:3])
def test_no_copy_goes_while_another_directory_is_offline_since_none_could_be_made(state: str) -> None:
    disk = disk_with_a_copy(state)
    before = copies_on(disk)
    disk.fail("list", path=THREE, times=1 << 30)
    manager = manage(disk, THREE, FOUR)
    moves = resume(manager)
    assert copies_on(disk) == before
    assert moves.request(KEY, FOUR) == ErrorCode.KAFKA_STORAGE_ERROR
    assert copies_on(disk) == before
    assert (moves.target_of(KEY) is not None) == (state == "complete")
    assert moves.request(KEY, ONE) == ErrorCode.NONE
    assert (copies_on(disk), moves.target_of(KEY)) == ([], None)
