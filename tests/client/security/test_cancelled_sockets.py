"""A client of real sockets is cancelled at each step of its tasks: nothing is left that was begun and never awaited."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import trio
from support.secured_nodes import PASSWORD, USER, SecuredNode
from trio.testing import wait_all_tasks_blocked

from minikafka.client import Admin, Producer
from minikafka.client.connections import trio_socket
from minikafka.client.connections.seams import Seams
from minikafka.client.connections.stream import Receiver
from minikafka.protocol.errors import KafkaError

STEPS_MAX = 1_000
LOGIN = {"sasl_mechanism": "PLAIN", "sasl_username": USER, "sasl_password": PASSWORD}
LISTENERS: Mapping[str, Mapping[str, str]] = {"PLAINTEXT": {}, "TLS": {}, "BOTH": LOGIN}


class CancelAt(trio.abc.Instrument):
    """Cancels a scope after so many steps of tasks; `left` is how many did not happen."""

    def __init__(self, scope: trio.CancelScope, steps: int) -> None:
        self._scope = scope
        self.left = steps

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if not self.left:
            self._scope.cancel()


async def describe(options: dict[str, Any]) -> None:
    async with Admin(**options) as admin:
        await admin.describe_cluster()


async def produce(options: dict[str, Any]) -> None:
    async with Producer(**options, max_block_ms=100) as producer:
        await producer.send("cancelled", b"x")


@pytest.mark.slow
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("use", [describe, produce], ids=["admin", "producer"])
def test_cancelled_at_each_step(
    secured_by_minikafka: SecuredNode, listener: str, use: Callable[[dict[str, Any]], Any]
) -> None:
    async def steps_left(steps: int) -> int:
        with trio.CancelScope() as scope:
            cancel = CancelAt(scope, steps)
            trio.lowlevel.add_instrument(cancel)
            try:
                await use(secured_by_minikafka.options(listener, **LISTENERS[listener]))
            finally:
                trio.lowlevel.remove_instrument(cancel)
        return cancel.left

    async def main() -> int:
        for steps in range(1, STEPS_MAX):
            if await steps_left(steps) > 0:
                return steps
        raise AssertionError("the client takes ever more steps")

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", RuntimeWarning)
        count = trio.run(main)
        gc.collect()
    assert [str(one.message) for one in seen if "never awaited" in str(one.message)] == []
    assert count > 20


def test_a_call_that_connects_when_the_client_is_closed_fails_and_leaves_no_socket(
    secured_by_minikafka: SecuredNode,
) -> None:
    """Another task's call: its connection is made after the last task of the client has ended."""
    outcomes: list[str] = []

    async def main() -> None:
        accepted, may_go_on = trio.Event(), trio.Event()

        async def open_late(host: str, port: int, receiver: Receiver, task_group: Any) -> Any:
            if is_held:
                accepted.set()
                with trio.CancelScope(shield=True):
                    await may_go_on.wait()
            return await trio_socket.open_stream(host, port, receiver, task_group)

        async def call(admin: Admin) -> None:
            try:
                await admin.cluster._connect("127.0.0.1", secured_by_minikafka.port)  # pyright: ignore[reportPrivateUsage]
            except KafkaError as error:
                outcomes.append(str(error))

        is_held = False
        async with trio.open_nursery() as nursery:
            async with Admin(secured_by_minikafka.address("PLAINTEXT"), seams=Seams(open_stream=open_late)) as admin:
                is_held = True
                nursery.start_soon(call, admin)
                await accepted.wait()
            may_go_on.set()
            await wait_all_tasks_blocked()

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        trio.run(main)
        gc.collect()
    assert [str(one.message) for one in seen if one.category in (ResourceWarning, RuntimeWarning)] == []
    (outcome,) = outcomes
    assert outcome.endswith("the client is closed")
