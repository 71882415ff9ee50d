"""An async client is used where it was opened, while it is open; elsewhere calls raise at once, instead of hanging."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio

from minikafka.client import Admin, Consumer, Producer, TopicPartition

CALLS: dict[str, tuple[type, Callable[[Any], Awaitable[Any]]]] = {
    "flush": (Producer, lambda one: one.flush()),
    "a known topic": (Producer, lambda one: one.send("homes", b"1")),
    "a new topic": (Producer, lambda one: one.send("homes-2", b"1")),
    "partitions_for": (Producer, lambda one: one.partitions_for("homes")),
    "poll": (Consumer, lambda one: one.poll(60_000)),
    "iterate": (Consumer, lambda one: anext(aiter(one))),
    "end_offsets": (Consumer, lambda one: one.end_offsets([TopicPartition("homes", 0)])),
    "list_topics": (Admin, lambda one: one.list_topics()),
}
ELSEWHERE: dict[str, Callable[[Callable[[], Awaitable[Any]]], Any]] = {
    "asyncio": lambda call: asyncio.run(call()),  # type: ignore[arg-type]
    "trio": trio.run,
}


def made(kind: type, bootstrap: str) -> Any:
    return kind(bootstrap_servers=bootstrap)


@pytest.mark.anyio
@pytest.mark.parametrize("elsewhere", ELSEWHERE)
@pytest.mark.parametrize("name", CALLS)
async def test_a_call_in_another_thread_or_loop_raises(minikafka_bootstrap: str, name: str, elsewhere: str) -> None:
    kind, call = CALLS[name]
    raised: list[BaseException] = []
    async with made(kind, minikafka_bootstrap) as one:
        if kind is Producer:
            await one.send_and_wait("homes", b"0")

        async def use() -> None:
            await call(one)

        def work() -> None:
            try:
                ELSEWHERE[elsewhere](use)
            except BaseException as error:  # noqa: BLE001 (looked at below)
                raised.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        with anyio.fail_after(20):
            await anyio.to_thread.run_sync(thread.join)
        assert [type(error) for error in raised] == [RuntimeError]
        assert "another event loop, thread or process" in str(raised[0])


FORKED = {name: one for name, one in CALLS.items() if name != "a known topic"} | {
    "a batch that is open": (Producer, lambda one: one.send("homes", b"1")),
    "many in a batch that is open": (Producer, lambda one: one.send_many("homes", [b"1", b"2"])),
}


def begun_in_a_child(call: Callable[[], Any]) -> str:
    """What the first step of a call does in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        said = "it waits"
        try:
            call().send(None)
        except BaseException as error:  # noqa: BLE001 (this process ends, and the other one looks at it)
            said = repr(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        return pipe.read().decode()


@pytest.mark.anyio
@pytest.mark.parametrize("name", FORKED)
async def test_a_call_in_a_forked_process_raises_and_the_parent_goes_on(minikafka_bootstrap: str, name: str) -> None:
    kind, call = FORKED[name]
    options = {"linger_ms": 60_000} if kind is Producer else {}
    async with kind(bootstrap_servers=minikafka_bootstrap, **options) as one:
        if kind is Producer:
            await one.send("homes", b"0")
        said = begun_in_a_child(lambda: call(one))
        assert said.startswith("RuntimeError("), said
        assert "another event loop, thread or process" in said or "no running event loop" in said
        if kind is Producer:
            delivery = await one.send("homes", b"2")
            with anyio.fail_after(20):
                await one.flush()
                await delivery


def test_a_client_outlives_no_event_loop(minikafka_bootstrap: str) -> None:
    producer = made(Producer, minikafka_bootstrap)

    async def open_it() -> Any:
        await producer.__aenter__()
        return await producer.send("homes", b"1")

    asyncio.run(open_it())  # asyncio cancels the tasks of the client, which was not left.
    for call in (lambda: producer.send("homes", b"2"), producer.flush):
        with pytest.raises(RuntimeError):
            asyncio.run(call())


@pytest.mark.anyio
@pytest.mark.parametrize("name", CALLS)
async def test_a_call_after_the_block_raises(minikafka_bootstrap: str, name: str) -> None:
    kind, call = CALLS[name]
    one = made(kind, minikafka_bootstrap)
    with pytest.raises(RuntimeError, match="not open"):
        await call(one)
    async with one:
        if kind is Producer:
            await one.send_and_wait("homes", b"0")
    with pytest.raises(RuntimeError, match="closed"):
        await call(one)
    with pytest.raises(RuntimeError, match="already entered"):
        await one.__aenter__()


@pytest.mark.anyio
async def test_a_task_that_waits_for_records_ends_when_another_one_leaves_the_block(minikafka_bootstrap: str) -> None:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks, Consumer(bootstrap_servers=minikafka_bootstrap) as consumer:

            async def wait() -> None:
                with pytest.raises(RuntimeError, match="closed"):
                    await consumer.poll(60_000)

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
