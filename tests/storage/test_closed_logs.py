"""A flush that waited for its turn, or for the disk, while its log was deleted or replaced, is of no consequence."""

from __future__ import annotations

from random import Random

import pytest
import trio
import trio.testing
from support.logs import SMALL, Clock, append, append_bytes, memory_disk

from minikafka.protocol.errors import KafkaStorageError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.disks.disk import MemoryDisk
from minikafka.storage.disks.flush_turns import FlushTurns
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import LogContext

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
TOPIC_ID = bytes(range(16))


def manage(disk: MemoryDisk, clock: Clock) -> LogManager:
    found = LogManager(
        LogContext(disk, clock, Random(1)), ["/one", "/two"], config_of=lambda topic: SMALL, node_id=1, cluster_id="c"
    )
    found.load()
    return found


def filled(manager: LogManager, key: TopicPartition) -> Log:
    log = manager.create(key, topic_id=TOPIC_ID)
    append(log, b"a", producer_id=1, producer_epoch=0, base_sequence=0)
    log.roll()
    append(log, b"b")
    return log


def copied(manager: LogManager, key: TopicPartition) -> Log:
    """A future log in the other directory."""
    source = manager.logs[key]
    other = next(one for one in manager.directories if key not in one.logs)
    manager.futures.create(other, key, TOPIC_ID)
    future = manager.futures.logs[key]
    while future.end_offset < source.end_offset:
        found = source.read(future.end_offset, max_bytes=1)
        assert found is not None
        append_bytes(future, bytearray(found.read()), assign_offsets=False)
    return future


def end(manager: LogManager, how: str) -> None:
    """What closes the log of which flushes are in progress."""
    if how == "deleted":
        manager.delete(A)
    elif how == "set aside":
        manager.set_aside(A)
    elif how == "copy discarded":
        manager.futures.discard(A, 0)
    else:
        swap = manager.futures.swap(A)
        swap.settle()
        manager.futures.settled(A, swap)


@pytest.mark.parametrize("is_removed", [False, True])
@pytest.mark.parametrize("others", [0, 1], ids=["no other log is flushed", "another log has the only turn"])
@pytest.mark.parametrize("how", ["deleted", "set aside", "copy discarded", "replaced"])
def test_a_log_that_is_closed_while_its_flushes_wait_takes_no_directory_offline(
    how: str, others: int, is_removed: bool
) -> None:
    disk, clock, ended = memory_disk(), Clock(), trio.Event()
    disk.pause = ended.wait
    disk.flush_turns = FlushTurns(4)
    assert disk.flush_turns.at_once == 1
    manager = manage(disk, clock)
    log, other = filled(manager, A), filled(manager, B)
    if how in ("copy discarded", "replaced"):
        future = copied(manager, A)
        log = future if how == "copy discarded" else log
    outcomes: list[str] = []

    async def flush(log: Log) -> None:
        try:
            await log.flush_async()
            outcomes.append("flushed")
        except KafkaStorageError as error:
            outcomes.append(str(error))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for one in [other] * others + [log] * 3:
                nursery.start_soon(flush, one)
                await trio.testing.wait_all_tasks_blocked()
            end(manager, how)
            if is_removed:
                clock.ms += 10 * SMALL.file_delete_delay_ms
                for path in manager._gone.take_due():
                    manager._gone.remove(path)
            ended.set()

    trio.run(main)
    assert [one.failure for one in manager.directories] == [None, None]
    assert log.failure is None
    assert all("is closed" in one or one == "flushed" for one in outcomes), outcomes
    assert not [file for segment in log.segments.opened() for file in segment.files if file._is_open]  # type: ignore[attr-defined]
