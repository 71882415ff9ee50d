"""A topic is deleted and made anew, in whatever state its log is: the new one has its own records only (KAFKA-14616).

Each state of the log (open, not opened for now, corrupt, without its topic id, in a directory that is offline, with a
copy) is combined with each moment of the deletion and of the creation: while the node serves, or is down.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest
import trio
from structlog.testing import capture_logs
from support.logs import append, append_bytes, read_all

from minikafka.broker.partitions.partition_lifecycle import MetadataFollower
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.partitions.replica_logs import ReplicaLogs
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import PartitionRecord, Record, RemoveTopic, TopicRecord
from minikafka.protocol.names import TopicPartition
from minikafka.storage import LogConfig, LogManager, MemoryDisk
from minikafka.storage.disks.checkpoint_files import read_topic_id
from minikafka.storage.logs.log_context import LogContext
from minikafka.storage.steps import at_once

NODE, KEY = 1, TopicPartition("t", 0)
FIRST, SECOND = b"f" * 16, b"s" * 16
DIRECTORIES = ["/a", "/b"]
LONG = 1 << 30


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What thousands of starts say is not printed."""
    with capture_logs():
        yield


def topic(topic_id: bytes) -> list[Record]:
    return [TopicRecord(topic_id, KEY.topic), PartitionRecord(topic_id, 0, (NODE,), (NODE,), NODE)]


class Life:
    """A node from its start to its stop, on a disk that outlives it."""

    def __init__(self, disk: MemoryDisk, records: list[Record]) -> None:
        self.disk, self.image = disk, Image()
        self.logs = LogManager(
            LogContext(disk, lambda: 0, Random(len(records))),
            DIRECTORIES,
            config_of=self.config,
            node_id=NODE,
            cluster_id="c",
        )
        self.logs.load()
        self.partitions = Partitions(self.image)
        replica_logs = ReplicaLogs(NODE, self.image, self.logs, self.config)
        self.follower = MetadataFollower(NODE, self.image, replica_logs, self.partitions)
        for record in records:
            self.image.apply(record)
        at_once(self.follower.start())

    def config(self, topic: str) -> LogConfig:
        return LogConfig(file_delete_delay_ms=0)

    def commit(self, *records: Record) -> None:
        for record in records:
            self.image.apply(record)
        at_once(self.follower.apply(records))

    def heal(self) -> None:
        """From now on nothing fails, and what could not be opened is tried again."""
        self.disk.heal()
        at_once(self.follower.look_for_room())

    def stop(self, *, killed: bool) -> None:
        if killed:
            self.disk.unlock_all()
        else:
            self.logs.close({})

    def values(self) -> list[bytes] | None:
        """Of the records that are served; None if none are."""
        partition = self.partitions.get(*KEY)
        if partition is None or partition.log.failure is not None:
            return None
        return [value for _, value in read_all(partition.log)]

    def write(self, value: bytes) -> None:
        append(self.partitions.find(*KEY).log, value)


@dataclass(frozen=True)
class Case:
    """What the log of the first topic is like.

    Attributes:
        change: Made to the disk while the node is down.
        has_copy: The log has a complete copy in the other directory.
        is_deletable: A deletion while the node serves can find the log, and deletes it.
        is_readable: Its records can be read when nothing fails any more.
    """

    change: Callable[[MemoryDisk], None]
    has_copy: bool = False
    is_deletable: bool = True
    is_readable: bool = True


def as_it_was(disk: MemoryDisk) -> None:
    """The log is open."""


def fails(kind: str, path: str, code: int) -> Callable[[MemoryDisk], None]:
    return lambda disk: disk.fail(kind, path=path, code=code, times=LONG)


def loses_id(disk: MemoryDisk) -> None:
    disk.remove("/a/t-0/partition.metadata")


def both(*changes: Callable[[MemoryDisk], None]) -> Callable[[MemoryDisk], None]:
    def change(disk: MemoryDisk) -> None:
        for one in changes:
            one(disk)

    return change


def loses_log(disk: MemoryDisk) -> None:
    """The process ended during a swap."""
    disk.remove_tree("/a/t-0")


def is_cut(at: str) -> Callable[[MemoryDisk], None]:
    """A log of flushed records ends in the middle of them."""

    def change(disk: MemoryDisk) -> None:
        folder = next(name for name in disk.list(at) if name.startswith("t-0"))
        file = disk.open(f"{at}/{folder}/00000000000000000000.log")
        file.truncate(disk.file_size(f"{at}/{folder}/00000000000000000000.log") // 2 + 7)
        file.close()

    return change


NOT_OPENED = fails("open", "t-0/000", errno.ENOSPC)
CASES = {
    "open": Case(as_it_was),
    "not opened": Case(NOT_OPENED),
    "not opened, id unreadable": Case(fails("open", "/t-0", errno.EMFILE), is_deletable=False),
    "not opened, id lost": Case(both(loses_id, NOT_OPENED)),
    "corrupt": Case(is_cut("/a"), is_readable=False),
    "corrupt, id lost": Case(both(is_cut("/a"), loses_id), is_readable=False),
    "corrupt, not opened": Case(both(is_cut("/a"), NOT_OPENED), is_readable=False),
    "copy, log corrupt": Case(is_cut("/a"), has_copy=True, is_readable=False),
    "copy corrupt": Case(is_cut("/b"), has_copy=True),
    "copy corrupt, alone": Case(both(is_cut("/b"), loses_log), has_copy=True, is_readable=False),
    "offline directory": Case(fails("list", "/a", errno.EIO), is_deletable=False),
    "copy": Case(as_it_was, has_copy=True),
    "copy, log not opened": Case(fails("open", "/a/t-0/000", errno.ENOSPC), has_copy=True),
    "copy alone": Case(loses_log, has_copy=True),
    "copy, log in an offline directory": Case(fails("list", "/a", errno.EIO), has_copy=True, is_deletable=False),
    "copy in an offline directory": Case(fails("list", "/b", errno.EIO), has_copy=True, is_deletable=False),
}
WITHOUT_ID = {"not opened, id lost", "corrupt, id lost"}
"""Flushed logs without a topic id are those of the topic of their name: nobody knows of an earlier one."""
MOMENTS = ["down", "served", "served, then restarted", "served, then healed"]


def first_life(*, has_copy: bool) -> MemoryDisk:
    disk = MemoryDisk(Random(1))
    life = Life(disk, [])
    life.commit(*topic(FIRST))
    for _ in range(3):
        life.write(b"old")
    if has_copy:
        copy_log(life.logs)
    life.stop(killed=False)
    return disk


def copy_log(logs: LogManager) -> None:
    source = logs.logs[KEY]
    logs.futures.create(logs.directories[1], KEY, FIRST)
    future = logs.futures.logs[KEY]
    while future.end_offset < source.end_offset:
        found = source.read(future.end_offset, max_bytes=1)
        assert found is not None
        append_bytes(future, bytearray(found.read()), assign_offsets=False)
    future.flush()
    trio.run(logs.futures.checkpoint, KEY)


def logs_of(disk: MemoryDisk, topic_id: bytes) -> list[str]:
    """What the node takes for a log or a copy of one, of this topic."""
    found = [f"{at}/{name}" for at in DIRECTORIES for name in disk.list(at) if name.startswith("t-0")]
    kept = [path for path in found if not path.endswith(("-delete", "-stray"))]
    return [path for path in kept if read_topic_id(disk, f"{path}/partition.metadata") == topic_id]


def strays(disk: MemoryDisk) -> list[str]:
    return [name for at in DIRECTORIES for name in disk.list(at) if name.endswith("-stray")]


def made_anew(case: Case, deleted: str, created: str, *, killed: bool) -> Life:
    """Deletes the first topic and makes the second one, each at its moment; the node serves, and nothing fails."""
    disk, records = first_life(has_copy=case.has_copy), topic(FIRST)
    case.change(disk)
    if deleted == "down":
        records = [*records, RemoveTopic(FIRST)]
    if deleted == created == "down":
        records = [*records, *topic(SECOND)]
    life = Life(disk, records)
    if deleted != "down":
        life.commit(RemoveTopic(FIRST))
        records = [*records, RemoveTopic(FIRST)]
    if deleted == "served, then healed":
        life.heal()
    if deleted == "served, then restarted" or (created == "down" and deleted != "down"):
        life.stop(killed=killed)
        records = [*records, *(topic(SECOND) if created == "down" else [])]
        life = Life(disk, records)
    if created != "down":
        with suppress(OSError):
            life.commit(*topic(SECOND))
        records = [*records, *topic(SECOND)]
    if created == "served, then restarted":
        life.stop(killed=killed)
        life = Life(disk, records)
    life.heal()
    if life.partitions.get(*KEY) is None:  # A new log is made only where no directory is offline.
        life.stop(killed=killed)
        life = Life(disk, records)
    return life


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("created", MOMENTS)
@pytest.mark.parametrize(
    ("name", "deleted"),
    [(name, deleted) for name in CASES for deleted in MOMENTS if name not in WITHOUT_ID or deleted != "down"],
)
def test_a_topic_that_is_made_anew_has_its_own_records_only(
    name: str, deleted: str, created: str, killed: bool
) -> None:
    life = made_anew(CASES[name], deleted, created, killed=killed)
    assert life.values() == []
    for value in (b"new", b"newer"):
        life.write(value)
        assert life.partitions.find(*KEY).log.topic_id == SECOND
        life.stop(killed=killed)
        life.disk.heal()
        life = Life(life.disk, [*topic(FIRST), RemoveTopic(FIRST), *topic(SECOND)])
    assert life.values() == [b"new", b"newer"]
    assert len(logs_of(life.disk, SECOND)) == 1
    assert logs_of(life.disk, FIRST) == []
    if CASES[name].is_deletable and deleted != "down":
        assert strays(life.disk) == [], "a topic that is deleted while the node serves leaves nothing"


@pytest.mark.parametrize("name", CASES)
def test_a_topic_that_is_not_deleted_has_its_records_when_they_can_be_read_again(name: str) -> None:
    disk = first_life(has_copy=CASES[name].has_copy)
    CASES[name].change(disk)
    life = Life(disk, topic(FIRST))
    life.heal()
    life.stop(killed=False)
    assert Life(disk, topic(FIRST)).values() == ([b"old"] * 3 if CASES[name].is_readable else None)
    assert strays(disk) == []
    if not CASES[name].is_readable:
        assert KEY in {**life.logs.failures.corrupt, **life.logs.futures.unusable}, "or a stop would be clean"


@pytest.mark.parametrize("deleted", ["down", "served"])
@pytest.mark.parametrize("name", CASES)
def test_no_log_of_a_deleted_topic_stays_among_the_logs(name: str, deleted: str) -> None:
    disk = first_life(has_copy=CASES[name].has_copy)
    CASES[name].change(disk)
    gone = [*topic(FIRST), RemoveTopic(FIRST)]
    life = Life(disk, topic(FIRST) if deleted == "served" else gone)
    if deleted == "served":
        life.commit(RemoveTopic(FIRST))
    life.heal()
    life.stop(killed=False)
    Life(disk, gone)
    assert logs_of(disk, FIRST) == []


@pytest.mark.parametrize(
    ("isr", "elr", "is_served"),
    [((NODE,), (), False), ((2, NODE), (), False), ((2,), (NODE,), False), ((2,), (), True), ((), (2,), True)],
)
def test_a_copy_that_may_lack_records_is_served_only_where_this_replica_may_not_lead(
    isr: tuple[int, ...], elr: tuple[int, ...], is_served: bool
) -> None:
    """The directory of the log is another one now, and is the one that the metadata name."""
    disk = first_life(has_copy=True)
    disk.remove_tree("/a")
    placed = PartitionRecord(FIRST, 0, (NODE, 2), isr, -1, elr=elr, directories=(b"lost" * 4, b"two " * 4))
    life = Life(disk, [TopicRecord(FIRST, KEY.topic), placed])
    assert life.values() == ([b"old"] * 3 if is_served else None)
    life.stop(killed=False)
    assert strays(disk) == []
    assert len(logs_of(disk, FIRST)) == 1
