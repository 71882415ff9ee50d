"""Small batches are appended at once for some milliseconds; then one waits until other tasks have run."""

from __future__ import annotations

import pytest
import trio

from minikafka.broker.partitions.batch_validation import LargeBatch, Rules, produced_batch
from minikafka.broker.partitions.large_batches import AT_ONCE_S, LargeBatches
from minikafka.protocol.records.batch import Codec, encode_batch
from minikafka.protocol.records.record import Record
from minikafka.storage.memory_disk import MemoryDisk

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


def test_after_a_while_the_next_batch_lets_other_tasks_run() -> None:
    clock, ran = Clock(), list[str]()
    large_batches = LargeBatches(clock)
    batch = produced_batch(bytearray(encode_batch([Record(0, NOW_MS, b"k", b"v")], codec=Codec.ZSTD)), 9)

    async def other() -> None:
        ran.append("another task")

    async def program() -> None:
        for _ in range(3):
            append(large_batches, clock, 0.4 * AT_ONCE_S)
        clock.now += 1  # what others do does not count
        with pytest.raises(LargeBatch):
            large_batches.begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            assert await large_batches.validated(batch, Rules(), NOW_MS, MemoryDisk()) is batch
            assert ran
        append(large_batches, clock, AT_ONCE_S)

    trio.run(program)
