"""A client may be left by another task than the one that has entered it, as fixtures, `start` and `stop` methods and
generators do: under asyncio that works, and under trio it is refused with a sentence. It is closed in any case."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from typing import Any

import anyio
import pytest

from minikafka.client import Admin, Consumer, Producer

CLIENTS: dict[str, Callable[[str], Any]] = {
    "producer": Producer,
    "consumer": lambda address: Consumer("left-elsewhere", bootstrap_servers=address, group_id="left-elsewhere"),
    "admin": Admin,
}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, minikafka_bootstrap: str) -> Any:
    return CLIENTS[request.param](minikafka_bootstrap)


async def use(client: Any) -> None:
    if isinstance(client, Producer):
        await client.send("left-elsewhere", b"x")
    elif isinstance(client, Consumer):
        await client.poll(100)
    else:
        await client.list_topics()


async def check_closed(client: Any) -> None:
    with pytest.raises(RuntimeError, match="is closed: create a new one"):
        await use(client)


@pytest.mark.parametrize("ends", [True, False], ids=["the task has ended", "the task goes on"])
@pytest.mark.parametrize("error", [None, ValueError("mine")], ids=["normally", "by an exception"])
def test_asyncio(client: Any, ends: bool, error: BaseException | None) -> None:
    async def main() -> None:
        left = asyncio.Event()

        async def enter() -> str:
            await client.__aenter__()
            entered.set_result(None)
            if not ends:
                await left.wait()
                await asyncio.sleep(0)
            return "not cancelled"

        entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(enter())
        await entered
        delivery = await client.send("left-elsewhere", b"x") if isinstance(client, Producer) else None
        await use(client)
        assert not await asyncio.create_task(client.__aexit__(type(error) if error else None, error, None))
        assert delivery is None or (delivery.done and (error is not None or delivery.result().offset >= 0))
        left.set()
        assert await task == "not cancelled"
        await check_closed(client)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_start_and_stop_over_a_stack(minikafka_bootstrap: str) -> None:
    async def main() -> None:
        stack = AsyncExitStack()
        clients = [make(minikafka_bootstrap) for make in CLIENTS.values()]

        async def start() -> None:
            for one in clients:
                await stack.enter_async_context(one)

        await asyncio.create_task(start())
        await asyncio.gather(*map(use, clients))
        await asyncio.create_task(stack.aclose())
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_generator_that_is_left_early(minikafka_bootstrap: str) -> None:
    """The event loop closes it, in a task of its own."""

    async def numbers(make: Callable[[str], Any]) -> AsyncIterator[int]:
        async with make(minikafka_bootstrap) as one:
            await use(one)
            for number in range(3):
                yield number

    async def main() -> list[int]:
        found: list[int] = []
        for make in CLIENTS.values():
            async for number in numbers(make):
                found.append(number)
                break
            async with aclosing(numbers(make)) as some:  # type: ignore[type-var]
                async for number in some:
                    found.append(number)
                    break
        return found

    assert asyncio.run(main()) == [0] * 6


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_in_another_event_loop_nobody_can_leave_it(client: Any, backend: str) -> None:
    asyncio.run(client.__aenter__())
    with pytest.raises(RuntimeError, match="was opened in another event loop, thread or process"):
        anyio.run(client.__aexit__, None, None, None, backend=backend)


def test_trio_says_what_to_do_and_the_client_is_closed(client: Any) -> None:
    said: list[str] = []

    async def leave(tasks: Any) -> None:
        with pytest.raises(RuntimeError) as raised:
            await client.__aexit__(None, None, None)
        said.append(str(raised.value))
        await check_closed(client)

    async def main() -> None:
        await client.__aenter__()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave, tasks)
        await client._block.__aexit__(None, None, None)  # trio would end the program.

    anyio.run(main, backend="trio")
    assert "was entered by another task than the one that leaves it" in said[0]
    assert f"keep `async with {type(client).__name__}(…) as …:` in one task" in said[0]
