"""A consumer gives up what it has buffered at the end of its block, without help of the cyclic garbage collector."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import trio
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, TopicPartition
from minikafka.client.connections.connection import Connection

PARTITIONS = 20
RECORD_SIZE_BYTES = 1 << 17
KEPT_SIZE_BYTES_MAX = 1 << 20
"""A record or two that the application has, and what the client needs besides."""


async def nothing(consumer: Consumer) -> None:
    await trio.sleep(1)


async def one_record(consumer: Consumer) -> None:
    await consumer.poll(1_000, max_records=1)


async def some_of_an_iteration(consumer: Consumer) -> None:
    async for _ in consumer:
        break


async def a_batch(consumer: Consumer) -> None:
    async for _ in consumer.batches():
        break


async def failure(consumer: Consumer) -> None:
    await one_record(consumer)
    raise ValueError


async def cancellation(consumer: Consumer) -> None:
    with trio.CancelScope() as scope:
        await one_record(consumer)
        scope.cancel()
        await trio.sleep(1)


@pytest.fixture
def memory() -> Iterator[Callable[[], int]]:
    """The bytes that are allocated since the test began; no cycle is collected meanwhile."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        began = tracemalloc.get_traced_memory()[0]
        yield lambda: tracemalloc.get_traced_memory()[0] - began
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize("use", [nothing, one_record, some_of_an_iteration, a_batch, failure, cancellation])
@pytest.mark.parametrize("group_id", [None, "g"])
def test_what_is_buffered_is_given_up(
    memory: Callable[[], int], use: Callable[[Consumer], Awaitable[None]], group_id: str | None
) -> None:
    cluster = ScriptedCluster(t=PARTITIONS)
    cluster.assigned = [TopicPartition("t", index) for index in range(PARTITIONS)]
    value = bytes(RECORD_SIZE_BYTES)
    for log in cluster.logs[cluster.ids["t"]]:
        log += [value] * 2

    async def story() -> None:
        consumer = cluster.consumer("t", group_id=group_id)
        with suppress(ValueError):
            async with consumer:
                await trio.sleep(1)
                buffered = memory()
                try:
                    await use(consumer)
                finally:
                    known = consumer.positions(), consumer.settled
        assert buffered > PARTITIONS * RECORD_SIZE_BYTES
        assert memory() < KEPT_SIZE_BYTES_MAX
        assert (consumer.positions(), consumer.settled) == known

    on_virtual_time(story)


def test_a_lost_connection_gives_up_the_response_that_had_begun(memory: Callable[[], int]) -> None:
    connection: Any = Connection("a", 1, "c")
    size = 32 * RECORD_SIZE_BYTES
    connection.frames.feed(memoryview(size.to_bytes(4, "big")))
    while memory() < size // 2:
        with connection.frames.target as target:
            received = len(target)
        connection.frames.received(received)
    assert memory() > KEPT_SIZE_BYTES_MAX
    connection.on_lost("cut")
    assert memory() < KEPT_SIZE_BYTES_MAX
