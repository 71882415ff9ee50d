"""A transaction is ended by one task: another one is refused at once, and the producer goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from support.fake_network import Later
from support.transaction_broker import TransactionBroker
from trio.testing import MockClock, wait_all_tasks_blocked

from minikafka.client import Producer
from minikafka.protocol.errors import RequestTimedOutError
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.produce import ProduceRequest

ENDS: dict[str, Callable[[Producer], Awaitable[None]]] = {"commit": Producer.commit, "abort": Producer.abort}
KINDS = (ProduceRequest, EndTxnRequest)
REFUSED = r"by another task or thread; only one may call commit\(\) or abort\(\) at a time"


class Held:
    """The responses of one kind of request, held back until `release`."""

    def __init__(self, broker: TransactionBroker, kind: type) -> None:
        self._handlers, self._kind = broker.network.brokers[0].handlers, kind
        self._answer = self._handlers[kind]
        self._held: list[tuple[Later, Any, int]] = []
        self._handlers[kind] = self._hold

    def _hold(self, request: Any, version: int) -> Later:
        self._held.append((Later(), request, version))
        return self._held[-1][0]

    def release(self) -> None:
        self._handlers[self._kind] = self._answer
        for later, request, version in self._held:
            later.answer(self._answer(request, version))


def opened(broker: TransactionBroker, **options: Any) -> Producer:
    return Producer("a:1", seams=broker.network.seams(), transactional_id="x", linger_ms=0, **options)


async def begun(producer: Producer) -> None:
    """A transaction whose batch is in flight."""
    await producer.begin()
    await producer.send("t", b"1")
    await wait_all_tasks_blocked(0.01)


async def one_more(producer: Producer, broker: TransactionBroker) -> None:
    """The producer can be used: its next transaction is committed."""
    async with producer.transaction():
        await producer.send("t", b"2")
    assert broker.ends[-1]


@pytest.mark.parametrize("first", ENDS)
@pytest.mark.parametrize("second", ENDS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_second_is_refused_while_the_first_waits(first: str, second: str, kind: type) -> None:
    async def main() -> None:
        broker = TransactionBroker()
        async with opened(broker) as producer:
            held = Held(broker, kind)
            await begun(producer)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ENDS[first], producer)
                await wait_all_tasks_blocked(0.01)
                with pytest.raises(RuntimeError, match=REFUSED):
                    await ENDS[second](producer)
                held.release()
            assert broker.ends == [first == "commit"]
            await one_more(producer, broker)

    trio.run(main, clock=MockClock(autojump_threshold=0.02))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_one_that_was_cancelled_or_not_answered_may_be_called_again(end: str, kind: type) -> None:
    async def main() -> None:
        broker = TransactionBroker()
        async with opened(broker, max_block_ms=2_000) as producer:
            held = Held(broker, kind)
            await begun(producer)
            with trio.move_on_after(1) as scope:
                await ENDS[end](producer)
            assert scope.cancelled_caught
            if kind is EndTxnRequest:
                with pytest.raises(RequestTimedOutError):
                    await ENDS[end](producer)
            held.release()
            await ENDS[end](producer)
            assert broker.ends[-1] is (end == "commit")
            await one_more(producer, broker)

    trio.run(main, clock=MockClock(autojump_threshold=0.02))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_block_that_is_left_while_another_task_commits_waits_for_it(kind: type) -> None:
    async def main() -> None:
        broker = TransactionBroker()

        async def commits(producer: Producer, held: Held) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(producer.commit)
                await trio.sleep(3)
                held.release()

        async def leave(producer: Producer, nursery: trio.Nursery) -> None:
            async with producer.transaction():
                held = Held(broker, kind)
                await producer.send("t", b"1")
                nursery.start_soon(commits, producer, held)
                await trio.sleep(2)
                raise LookupError

        async with opened(broker) as producer:
            async with trio.open_nursery() as nursery:
                with pytest.raises(LookupError) as error:
                    await leave(producer, nursery)
            assert not hasattr(error.value, "__notes__")
            assert broker.ends == [True]
            await one_more(producer, broker)

    trio.run(main, clock=MockClock(autojump_threshold=0.02))
