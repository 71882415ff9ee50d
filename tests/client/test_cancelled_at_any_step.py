"""A call of an async client that is cancelled at any of its steps: the client goes on, and its end leaves nothing."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

import anyio
import pytest

from minikafka.client import Admin, Consumer, Producer

pytestmark = pytest.mark.anyio
VALUES = [b"%d" % number for number in range(20)]
STEPS_MAX = 100
LIMIT_S = 30
POLL_MS = 10_000


class Stepped:
    """Awaits a coroutine, and cancels a scope before its n-th step, from 1 on.

    Attributes:
        steps: how many steps there have been.
    """

    def __init__(self, coroutine: Any, cancelled_at: int, scope: anyio.CancelScope) -> None:
        self._coroutine, self._cancelled_at, self._scope = coroutine, cancelled_at, scope
        self.steps = 0

    def __await__(self) -> Generator[Any, Any, None]:
        resume: Callable[[], Any] = partial(self._coroutine.send, None)
        while True:
            self.steps += 1
            if self.steps == self._cancelled_at:
                self._scope.cancel()
            try:
                waits_for = resume()
            except StopIteration:
                return
            try:
                resume = partial(self._coroutine.send, (yield waits_for))
            except BaseException as error:  # noqa: BLE001 (passed on)
                resume = partial(self._coroutine.throw, error)


async def cancelled(step: int, work: Callable[[], Awaitable[None]]) -> bool:
    """Runs `work`, cancelled at a step; returns whether it has as many steps."""
    with anyio.fail_after(LIMIT_S), anyio.CancelScope() as scope:
        stepped = Stepped(work(), step, scope)
        await stepped
    return stepped.steps >= step


def sockets() -> int:
    """How many this process has open."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
        except FileNotFoundError:  # the one by which these were listed
            pass
    return found


async def send(producer: Producer, topic: str) -> None:
    for value in VALUES:
        await producer.send(topic, value, partition=0)
    await producer.flush()


async def send_and_wait(producer: Producer, topic: str) -> None:
    for value in VALUES[:4]:
        await producer.send_and_wait(topic, value, partition=0)


async def in_a_transaction(producer: Producer, topic: str) -> None:
    async with producer.transaction():
        await send(producer, topic)


async def read(consumer: Consumer, topic: str) -> None:
    await consumer.poll(POLL_MS)
    await consumer.commit()
    await consumer.committed((topic, 0))


async def ask(admin: Admin, topic: str) -> None:
    await admin.list_topics()
    await admin.describe_topics([topic])


CLIENTS: dict[str, tuple[Callable[[str, str, str], Any], Callable[[Any, str], Awaitable[None]]]] = {
    "send": (lambda address, topic, name: Producer(address), send),
    "send_and_wait": (lambda address, topic, name: Producer(address, linger_ms=0), send_and_wait),
    "transaction": (lambda address, topic, name: Producer(address, transactional_id=name), in_a_transaction),
    "consumer": (
        lambda address, topic, name: Consumer(
            topic, bootstrap_servers=address, group_id=name, auto_offset_reset="earliest", group_protocol="consumer"
        ),
        read,
    ),
    "classic": (
        lambda address, topic, name: Consumer(
            topic, bootstrap_servers=address, group_id=name, auto_offset_reset="earliest"
        ),
        read,
    ),
    "admin": (lambda address, topic, name: Admin(address), ask),
}


@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_block_that_is_cancelled_at_any_step_leaves_no_socket(
    minikafka_bootstrap: str, topic: str, kind: str
) -> None:
    make, work = CLIENTS[kind]
    async with Producer(minikafka_bootstrap) as producer:
        await producer.send_and_wait(topic, b"first", partition=0)

    async def block(number: int) -> None:
        async with make(minikafka_bootstrap, topic, f"{topic}-{number}") as client:
            await work(client, topic)

    before = sockets()
    for step in range(1, STEPS_MAX):
        if not await cancelled(step, partial(block, step)):
            break
        assert sockets() == before, step
    assert 1 < step < STEPS_MAX - 1


@pytest.mark.parametrize("work", [send, send_and_wait])
async def test_a_producer_goes_on_whose_call_was_cancelled_at_any_step(
    minikafka_bootstrap: str, topic: str, work: Callable[[Producer, str], Awaitable[None]]
) -> None:
    """What was taken is delivered once, in order, and before what is sent later."""
    for step in range(1, STEPS_MAX):
        name = f"{topic}-{step}"
        async with Producer(minikafka_bootstrap, linger_ms=0) as producer:
            more = await cancelled(step, partial(work, producer, name))
            await producer.send_and_wait(name, b"last", partition=0)
        async with Consumer(
            name, bootstrap_servers=minikafka_bootstrap, auto_offset_reset="earliest", stop_at="end"
        ) as consumer:
            *found, last = [one.value async for one in consumer]
        assert (found, last) == (VALUES[: len(found)], b"last")
        if not more:
            break
    assert 1 < step < STEPS_MAX - 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("call", ["poll", "next", "commit"])
async def test_a_consumer_goes_on_whose_call_was_cancelled_at_any_step(
    minikafka_bootstrap: str, topic: str, call: str, protocol: Any
) -> None:
    """Each record is returned once."""
    async with Producer(minikafka_bootstrap) as producer:
        await send(producer, topic)
    for step in range(1, STEPS_MAX):
        found: list[bytes | None] = []
        async with Consumer(
            topic, bootstrap_servers=minikafka_bootstrap, group_id=f"{topic}-{step}", group_protocol=protocol,
            auto_offset_reset="earliest", max_poll_records=7,
        ) as consumer:  # fmt: skip

            async def work() -> None:
                if call == "next":
                    async for one in consumer:
                        found.append(one.value)  # noqa: B023
                        break
                elif call == "poll":
                    found.extend([one.value for one in await consumer.poll(POLL_MS)])  # noqa: B023
                else:
                    await consumer.commit()

            if call == "commit":
                found += [one.value for one in await consumer.poll(POLL_MS)]
            more = await cancelled(step, work)
            while len(found) < len(VALUES) and (rest := await consumer.poll(POLL_MS)):
                found += [one.value for one in rest]
        assert found == VALUES
        if not more:
            break
    assert 1 < step < STEPS_MAX - 1
