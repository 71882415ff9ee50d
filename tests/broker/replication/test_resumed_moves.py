"""What becomes of the copy of a log when its replica is opened again: it is continued, made anew, or discarded."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.logs import SMALL, Clock, append, memory_disk

from minikafka.broker.replication.replica_moves import ReplicaMoves
from minikafka.protocol.names import TopicPartition
from minikafka.storage.checkpoint_files import write_topic_id
from minikafka.storage.log_manager import LogManager
from minikafka.storage.memory_disk import MemoryDisk

KEY = TopicPartition("a", 0)
TOPIC_ID, OTHER_ID = b"t" * 16, b"o" * 16
ONE, TWO = "/one", "/two"


def manage(disk: MemoryDisk) -> LogManager:
    found = LogManager(
        disk, [ONE, TWO], now_ms=Clock(), random=Random(1), config_of=lambda topic: SMALL, node_id=1, cluster_id="c"
    )
    found.load()
    found.create(KEY, topic_id=TOPIC_ID, is_new=False)
    return found


def with_a_copy(state: str) -> LogManager:
    """A node that was started with a copy in this state."""
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
        file = disk.open(f"{path}/00000000000000000000.log")
        file.truncate(file.size_bytes // 2 + 7)
        file.close()
    elif state == "without topic id":
        disk.remove(f"{path}/partition.metadata")
    elif state == "of another topic":
        write_topic_id(disk, f"{path}/partition.metadata", OTHER_ID, sync=False)
    return manage(disk)


def resume(manager: LogManager) -> ReplicaMoves:
    moves = ReplicaMoves(1, cast(Any, None), lambda: manager, cast(Any, None), cast(Any, None), cast(Any, None))
    log = manager.logs[KEY]
    moves.resume(cast(Any, SimpleNamespace(topic_partition=KEY, topic_id=TOPIC_ID, log=log)))
    return moves


@pytest.mark.parametrize(
    ("state", "end_offset"),
    [("complete", 3), ("corrupt", 0), ("without topic id", 0), ("of another topic", None)],
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
