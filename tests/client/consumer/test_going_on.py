"""Iterators over a consumer go on after a request that was cancelled, interrupted or failed."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import warnings
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any
from weakref import ref

import anyio
import pytest
from anyio.lowlevel import checkpoint

from minikafka.client import Consumer, ConsumerInterceptor, Producer, RecordDeserializationError, blocking
from minikafka.client.going_on import AsyncIteration, Block, Iteration

pytestmark = pytest.mark.anyio
ITERATORS: dict[str, Callable[[Any], Any]] = {
    "async for": lambda consumer: consumer,
    "batches": lambda consumer: consumer.batches(),
    "arrow_batches": lambda consumer: consumer.arrow_batches(["value"]),
}


class Interceptor(ConsumerInterceptor):
    """Changes nothing."""


def values(item: Any) -> list[bytes]:
    """Those of a record or a batch."""
    if hasattr(item, "column"):
        return list(item.column("value").to_pylist())
    return [item.value] if hasattr(item, "value") else [one.value for one in item]


async def send(bootstrap: str, topic: str, *sent: bytes) -> None:
    async with Producer(bootstrap) as producer:
        for one in sent:
            await producer.send_and_wait(topic, one)


@pytest.mark.parametrize("interceptors", [(), (Interceptor(),)], ids=["plain", "intercepted"])
@pytest.mark.parametrize("kind", ITERATORS)
async def test_a_loop_goes_on_after_a_request_that_was_cancelled(
    minikafka_bootstrap: str, topic: str, kind: str, interceptors: Any
) -> None:
    await send(minikafka_bootstrap, topic, b"0")
    async with Consumer(
        topic, bootstrap_servers=minikafka_bootstrap, auto_offset_reset="earliest", interceptors=interceptors
    ) as consumer:
        iterator = aiter(ITERATORS[kind](consumer))
        seen = values(await anext(iterator))
        for _ in range(3):
            with anyio.move_on_after(0.01) as scope:
                await anext(iterator)
            assert scope.cancelled_caught
        await send(minikafka_bootstrap, topic, b"1", b"2")
        with anyio.fail_after(60):
            async for item in iterator:
                seen += values(item)
                if len(seen) == 3:
                    break
        assert seen == [b"0", b"1", b"2"]


@pytest.mark.parametrize("kind", ITERATORS)
def test_a_loop_goes_on_after_asyncio_timeouts(minikafka_bootstrap: str, topic: str, kind: str) -> None:
    async def main() -> None:
        await send(minikafka_bootstrap, topic, b"0")
        async with Consumer(topic, bootstrap_servers=minikafka_bootstrap, auto_offset_reset="earliest") as consumer:
            iterator = aiter(ITERATORS[kind](consumer))
            assert values(await asyncio.wait_for(anext(iterator), 60)) == [b"0"]
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(iterator), 0.01)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await anext(iterator)
            await send(minikafka_bootstrap, topic, b"1")
            assert values(await asyncio.wait_for(anext(iterator), 60)) == [b"1"]

    asyncio.run(main())


def number(value: bytes) -> int:
    """A deserializer that fails for what is none."""
    return int(value)


@pytest.mark.parametrize("kind", ["async for", "batches"])
async def test_a_loop_goes_on_after_an_error(minikafka_bootstrap: str, topic: str, kind: str) -> None:
    await send(minikafka_bootstrap, topic, b"0", b"bad", b"2")
    async with Consumer(
        topic, bootstrap_servers=minikafka_bootstrap, auto_offset_reset="earliest", value_deserializer=number
    ) as consumer:
        iterator = aiter(ITERATORS[kind](consumer))
        with anyio.fail_after(60):
            assert values(await anext(iterator)) == [0]
            with pytest.raises(RecordDeserializationError):
                await anext(iterator)
            consumer.seek((topic, 0), 2)
            assert values(await anext(iterator)) == [2]


BLOCKING: dict[str, Callable[[Any], Any]] = {**ITERATORS, "async for": iter}


@pytest.mark.parametrize("kind", BLOCKING)
def test_a_blocking_loop_goes_on_after_an_interruption(minikafka_bootstrap: str, topic: str, kind: str) -> None:
    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        anyio.run(send, minikafka_bootstrap, topic, b"0")
        with blocking.Consumer(topic, bootstrap_servers=minikafka_bootstrap, auto_offset_reset="earliest") as consumer:
            iterator = BLOCKING[kind](consumer)
            assert values(next(iterator)) == [b"0"]
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                next(iterator)
            anyio.run(send, minikafka_bootstrap, topic, b"1")
            assert values(next(iterator)) == [b"1"]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Source:
    """Counts up to 5, and fails before each odd number once."""

    def __init__(self) -> None:
        self.at = 0
        self.failed: set[int] = set()

    def _next(self) -> None:
        if self.at % 2 and self.at not in self.failed:
            self.failed.add(self.at)
            raise ValueError(self.at)
        self.at += 1

    def plain(self, block: Block) -> Generator[int, None, None]:
        with block:
            while self.at < 5:
                self._next()
                yield self.at

    async def waiting(self, block: Block) -> AsyncGenerator[int, None]:
        with block:
            while self.at < 5:
                self._next()
                yield self.at


def test_an_iterator_ends_when_its_generator_does() -> None:
    iterator = Iteration(Source().plain)
    seen = [next(iterator)]
    for odd in ("1", "3"):
        with pytest.raises(ValueError, match=odd):
            seen += iterator
        seen.append(next(iterator))
    seen += iterator
    assert seen == [1, 2, 3, 4, 5]
    assert list(iterator) == []
    closed = Iteration(Source().plain)
    next(closed)
    closed.close()
    assert list(closed) == []


async def test_an_async_iterator_ends_when_its_generator_does_and_is_gone_when_it_is_left() -> None:
    iterator = AsyncIteration(Source().waiting)
    assert await anext(iterator) == 1
    assert iterator.is_open
    with pytest.raises(ValueError, match="1"):
        await anext(iterator)
    assert not iterator.is_open
    assert await anext(iterator) == 2
    assert iterator.is_open
    await iterator.aclose()
    assert not iterator.is_open
    assert [one async for one in iterator] == []
    left = AsyncIteration(Source().waiting)
    gone = ref(left)
    await anext(left)
    del left
    assert gone() is None


@pytest.mark.parametrize("interceptors", [(), (Interceptor(),)], ids=["plain", "intercepted"])
@pytest.mark.parametrize("kind", ITERATORS)
@pytest.mark.filterwarnings("error")
async def test_a_loop_that_is_left_needs_no_event_loop_for_its_end(
    minikafka_bootstrap: str, topic: str, kind: str, interceptors: Any
) -> None:
    """Trio warns of a generator that it would have to end."""
    with warnings.catch_warnings():  # about what other tests have left
        warnings.simplefilter("ignore")
        gc.collect()
    await send(minikafka_bootstrap, topic, b"0", b"1")
    tracked = list[object]()
    before = sys.get_asyncgen_hooks()
    async with Consumer(
        topic, bootstrap_servers=minikafka_bootstrap, auto_offset_reset="earliest", interceptors=interceptors
    ) as consumer:
        sys.set_asyncgen_hooks(firstiter=tracked.append, finalizer=before.finalizer)
        try:
            async for item in ITERATORS[kind](consumer):
                assert values(item)
                break
            gc.collect()
        finally:
            sys.set_asyncgen_hooks(*before)
        await checkpoint()
    assert not tracked
