"""Two tasks or threads that read from one consumer would get records twice: the second one is refused."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from minikafka.client import Consumer, Producer, blocking

READS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "async for": lambda consumer: anext(aiter(consumer)),
    "batches": lambda consumer: anext(consumer.batches()),
    "arrow_batches": lambda consumer: anext(consumer.arrow_batches()),
    "poll": lambda consumer: consumer.poll(60_000),
}


async def filled(bootstrap: str, topic: str) -> Consumer:
    async with Producer(bootstrap) as producer:
        for n in range(10):
            await producer.send(topic, b"%d" % n)
    return Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")


@pytest.mark.anyio
@pytest.mark.parametrize("second", READS)
async def test_a_second_task_is_refused_while_one_iterates(minikafka_bootstrap: str, topic: str, second: str) -> None:
    async with await filled(minikafka_bootstrap, topic) as consumer, anyio.create_task_group() as tasks:
        seen = []

        async def other() -> None:
            with pytest.raises(RuntimeError, match="another task reads from this Consumer"):
                await READS[second](consumer)

        async for record in consumer:  # The first record is being processed while the other task tries.
            seen.append(record.offset)
            if record.offset in (0, 5):
                tasks.start_soon(other)
                await anyio.sleep(0.01)
            if record.offset == 9:
                break
        assert seen == list(range(10))


@pytest.mark.anyio
@pytest.mark.parametrize("second", READS)
@pytest.mark.parametrize("first", READS)
async def test_a_second_task_is_refused_while_one_waits(
    minikafka_bootstrap: str, topic: str, first: str, second: str
) -> None:
    async with Consumer(bootstrap_servers=minikafka_bootstrap) as consumer, anyio.create_task_group() as tasks:
        tasks.start_soon(READS[first], consumer)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="another task reads from this Consumer"):
            await READS[second](consumer)
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.parametrize("second", READS)
@pytest.mark.parametrize("first", READS)
async def test_of_two_tasks_that_begin_at_once_one_is_refused(
    minikafka_bootstrap: str, topic: str, first: str, second: str
) -> None:
    refused = []
    async with await filled(minikafka_bootstrap, topic) as consumer:

        async def read(name: str) -> None:
            try:
                await READS[name](consumer)
            except RuntimeError as error:
                refused.append(str(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, first)
            tasks.start_soon(read, second)
        assert ["another task reads from this Consumer" in one for one in refused] == [True]
        await consumer.poll()  # Tasks that have ended keep nobody from reading.


@pytest.mark.anyio
async def test_a_task_may_read_once_another_one_has_left_its_loop(minikafka_bootstrap: str, topic: str) -> None:
    async with await filled(minikafka_bootstrap, topic) as consumer:
        seen = []

        async def read_two() -> None:
            async for record in consumer:
                seen.append(record.offset)
                if len(seen) % 2 == 0:
                    break

        for _ in range(3):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read_two)
        assert seen == list(range(6))


@pytest.mark.anyio
@pytest.mark.parametrize("second", READS)
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_task_may_read_once_another_one_has_ended_in_its_loop(
    minikafka_bootstrap: str, topic: str, second: str, is_cancelled: bool
) -> None:
    """An iterator in a variable of a task that failed or was cancelled lives as long as the task's exception."""
    kept: list[BaseException] = []
    async with await filled(minikafka_bootstrap, topic) as consumer:
        seen = []

        async def fails() -> None:
            records = aiter(consumer)
            try:
                async for record in records:
                    seen.append(record.offset)
                    if is_cancelled:
                        await anyio.sleep_forever()
                    raise ValueError("of the application")
            except BaseException as error:
                kept.append(error)
                if is_cancelled:
                    raise

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fails)
            while not seen:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        assert await READS[second](consumer)
        assert kept[0].__traceback__ is not None


@pytest.mark.parametrize("second", ["for", "batches", "poll"])
def test_a_second_thread_is_refused(minikafka_bootstrap: str, topic: str, second: str) -> None:
    reads: dict[str, Callable[[blocking.Consumer], Any]] = {
        "for": lambda consumer: next(iter(consumer)),
        "batches": lambda consumer: next(consumer.batches()),
        "poll": lambda consumer: consumer.poll(),
    }
    with blocking.Producer(minikafka_bootstrap) as producer:
        for n in range(10):
            producer.send(topic, b"%d" % n)
    refused: list[Exception] = []

    def other(consumer: blocking.Consumer) -> None:
        try:
            reads[second](consumer)
        except RuntimeError as error:
            refused.append(error)

    with blocking.Consumer(topic, bootstrap_servers=minikafka_bootstrap, auto_offset_reset="earliest") as consumer:
        seen = []
        for record in consumer:
            seen.append(record.offset)
            if record.offset in (0, 5):
                thread = threading.Thread(target=other, args=(consumer,))
                thread.start()
                thread.join()
            if record.offset == 8:
                break
        assert seen == list(range(9))
        assert ["another thread reads" in str(error) for error in refused] == [True, True]
        other(consumer)
        assert len(refused) == 2
