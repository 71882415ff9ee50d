"""Small batches are appended at once for some milliseconds; then one waits until other tasks have run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from support.batches import encode_batch

from minikafka.broker.partitions.batch_validation import AT_ONCE_RECORDS, LargeBatch, Rules, produced_batch
from minikafka.broker.partitions.large_batches import AT_ONCE, AT_ONCE_S, LargeBatches
from minikafka.protocol.records.batch import Batch, Codec
from minikafka.protocol.records.record import Record
from minikafka.storage.disks.memory_disk import MemoryDisk

NOW_MS = 1_700_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        return self.now


def append(large_batches: LargeBatches, clock: Clock, takes_s: float) -> None:
    began = large_batches.begin()
    clock.now += takes_s
    large_batches.end(began)


def batch_of(count: int) -> Batch:
    records = [Record(offset, NOW_MS, b"k", b"v") for offset in range(count)]
    return produced_batch(bytearray(encode_batch(records, codec=Codec.ZSTD)), 9)


class HangingDisk(MemoryDisk):
    """What runs in its threads does not end before `goes_on`."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = trio.Event()

    async def run(self, function: Callable[..., Any], *arguments: object) -> Any:
        await self.goes_on.wait()
        return function(*arguments)


def test_after_a_while_the_next_batch_lets_other_tasks_run() -> None:
    clock = Clock()
    large_batches = LargeBatches(clock)
    batch = batch_of(1)

    async def program() -> None:
        for _ in range(3):
            append(large_batches, clock, 0.4 * AT_ONCE_S)
        clock.now += 1  # what others do does not count
        with pytest.raises(LargeBatch):
            large_batches.begin()
        with trio.testing.assert_checkpoints():
            assert await large_batches.validated(batch, Rules(), NOW_MS, MemoryDisk()) is batch
        append(large_batches, clock, AT_ONCE_S)

    trio.run(program)


def test_the_time_of_an_earlier_round_of_the_loop_does_not_count() -> None:
    clock, round_number = Clock(), 1
    large_batches = LargeBatches(clock, lambda: round_number)
    append(large_batches, clock, 0.8 * AT_ONCE_S)
    round_number = 2
    append(large_batches, clock, 0.8 * AT_ONCE_S)
    append(large_batches, clock, 0.8 * AT_ONCE_S)
    with pytest.raises(LargeBatch):
        large_batches.begin()
    round_number = 3
    append(large_batches, clock, 0.8 * AT_ONCE_S)


def test_a_small_batch_does_not_wait_for_large_ones() -> None:
    large_batches, disk = LargeBatches(), HangingDisk()
    small, large = batch_of(1), batch_of(AT_ONCE_RECORDS + 1)

    async def program() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(2 * AT_ONCE):
                nursery.start_soon(large_batches.validated, large, Rules(), NOW_MS, disk)
            await trio.testing.wait_all_tasks_blocked()
            assert await large_batches.validated(small, Rules(), NOW_MS, disk) is small
            disk.goes_on.set()

    trio.run(program)
