"""Ctrl-C under trio leaves the block of a client as KeyboardInterrupt, never in groups of the client."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork
from trio.testing import MockClock

from minikafka.client import Admin, Consumer, Producer
from minikafka.client.connections.exception_groups import sole
from minikafka.client.connections.stream import Receiver
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest
from minikafka.protocol.messages.list_offsets import ListOffsetsRequest
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import ProduceRequest

CLIENTS: dict[str, Callable[[FakeNetwork], Any]] = {
    "producer": lambda network: Producer("a:1", seams=network.seams(), enable_idempotence=False),
    "consumer": lambda network: Consumer("t", bootstrap_servers="a:1", seams=network.seams()),
    "admin": lambda network: Admin("a:1", seams=network.seams()),
}
CALLS: dict[str, Callable[[Any], Any]] = {
    "producer": lambda producer: producer.send_and_wait("t", b"x"),
    "consumer": lambda consumer: consumer.poll(60_000),
    "admin": lambda admin: admin.describe_cluster(),
}
OPENING = ("connecting", ApiVersionsRequest, MetadataRequest)
OPEN = {"producer": ProduceRequest, "consumer": ListOffsetsRequest, "admin": DescribeClusterRequest}


async def from_outside() -> None:
    """Trio handles the signal in code of its own, and wakes up the main task."""
    signal.raise_signal(signal.SIGINT)


def press(*, outside: bool) -> None:
    """Ctrl-C now in the task that runs, or soon in whatever the main task waits for."""
    if outside:
        trio.lowlevel.spawn_system_task(from_outside)
    else:
        signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def python_handles_the_signal() -> Iterator[None]:
    """Also in the background of a shell, which has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Silent(FakeNetwork):
    """A broker that does not answer one kind of request: Ctrl-C is pressed instead, once."""

    def __init__(self, when: Any, *, outside: bool) -> None:
        super().__init__({"t": [1]})
        self.when, self.outside, self.pressed = when, outside, False
        broker = self.broker("a", 1, dict.fromkeys(OPEN.values(), self._press))
        if when in broker.handlers:
            broker.handlers[when] = self._press

    async def open_stream(self, host: str, port: int, receiver: Receiver, task_group: Any) -> Any:
        if self.when == "connecting":
            self._press(None, 0)
            await trio.sleep_forever()
        return await super().open_stream(host, port, receiver, task_group)

    def _press(self, request: Any, version: int) -> None:
        if not self.pressed:
            self.pressed = True
            press(outside=self.outside)


async def limited(main: Callable[[], Any]) -> None:
    with trio.fail_after(100):
        await main()


def raised_by(main: Callable[[], Any]) -> type[BaseException] | None:
    """What ends the program; pytest would end as well."""
    try:
        trio.run(limited, main, clock=MockClock(autojump_threshold=0))
    except BaseException as error:  # noqa: BLE001
        return type(error)
    return None


@pytest.mark.parametrize("outside", [False, True], ids=["in the task", "outside"])
@pytest.mark.parametrize(
    ("client", "when"), [*((one, when) for one in CLIENTS for when in OPENING), *OPEN.items()]
)
def test_the_block_ends_with_keyboard_interrupt(client: str, when: Any, outside: bool) -> None:
    network = Silent(when, outside=outside)

    async def main() -> None:
        async with CLIENTS[client](network) as opened:
            await CALLS[client](opened)
            await trio.sleep_forever()

    assert raised_by(main) is KeyboardInterrupt
    assert network.pressed


@pytest.mark.parametrize("outside", [False, True], ids=["in the task", "outside"])
def test_a_call_that_connects_again_is_left_with_keyboard_interrupt(outside: bool) -> None:
    network = Silent(None, outside=outside)

    async def main() -> None:
        async with CLIENTS["admin"](network) as admin:
            network.when = "connecting"
            network.brokers[0].hang_up()
            with pytest.raises(KeyboardInterrupt):
                await CALLS["admin"](admin)

    assert raised_by(main) is None
    assert network.pressed


def test_what_ends_the_program_is_found_among_other_exceptions_and_one_is_taken_out_of_its_groups() -> None:
    interrupt, error, other = KeyboardInterrupt(), ValueError(), OSError()
    assert sole([BaseExceptionGroup("", [error, BaseExceptionGroup("", [interrupt])]), other]) is interrupt
    assert sole([ExceptionGroup("", [ExceptionGroup("", [error])])]) is error
    assert sole([ExceptionGroup("", [error, other])]) is None
    assert sole([]) is None
