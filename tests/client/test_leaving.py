"""What leaves the block of a client is what happened in it, also beside a task group whose child fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest

from minikafka.client import Admin, Consumer, Producer
from minikafka.client.consumer.subscription import Subscriptions

CLIENTS: dict[str, Callable[[str], Any]] = {
    "producer": Producer,
    "consumer": lambda address: Consumer(bootstrap_servers=address),
    "admin": Admin,
}


class Failed(Exception):
    """What the application raises."""


async def fail() -> None:
    await anyio.sleep(0)
    raise Failed


@pytest.mark.parametrize("client", CLIENTS)
def test_a_child_of_asyncios_task_group_fails_in_a_block(minikafka_bootstrap: str, client: str) -> None:
    async def main() -> None:
        async with CLIENTS[client](minikafka_bootstrap), asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())
            tasks.create_task(asyncio.sleep(3600))

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(main())
    assert [type(one) for one in raised.value.exceptions] == [Failed]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("in_group", [False, True])
def test_an_exception_leaves_a_block_as_it_was_raised(
    minikafka_bootstrap: str, client: str, backend: str, in_group: bool
) -> None:
    block: AbstractAsyncContextManager[Any] = CLIENTS[client](minikafka_bootstrap)

    async def main() -> None:
        async with block:
            if not in_group:
                await fail()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fail)

    with pytest.raises(ExceptionGroup if in_group else Failed) as raised:
        anyio.run(main, backend=backend)
    if isinstance(raised.value, ExceptionGroup):
        assert [type(one) for one in raised.value.exceptions] == [Failed]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_that_is_left_as_its_assignment_arrives_ends(
    minikafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch, backend: str, protocol: str
) -> None:
    """The task of its group was resumed by the response in the same round of the loop, before it was cancelled."""
    assigned, is_left = Subscriptions.partitions_assigned, list[bool]()

    async def left(self: Subscriptions, added: Any, everything: Any) -> None:
        assert self._group_task is not None
        self._group_task.cancel()
        self._group = None
        is_left.append(True)
        await assigned(self, added, everything)

    monkeypatch.setattr(Subscriptions, "partitions_assigned", left)

    async def main() -> None:
        async with Consumer(
            "left-while-joining",
            bootstrap_servers=minikafka_bootstrap,
            group_id=f"left-{backend}-{protocol}",
            group_protocol=protocol,
        ) as consumer:
            while not is_left:
                await consumer.poll(10)

    async def create() -> None:
        async with Producer(minikafka_bootstrap) as producer:
            await producer.send_and_wait("left-while-joining", b"")

    anyio.run(create, backend=backend)
    anyio.run(main, backend=backend)
