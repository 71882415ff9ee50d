"""A transaction whose block is cancelled is over: aborted, or committed if the coordinator may know of the commit."""

from __future__ import annotations

import pytest
import trio
from support.transaction_broker import TransactionBroker
from trio.testing import MockClock

from minikafka.client import Producer, TopicPartition
from minikafka.client.producer.transaction_state import Phase
from minikafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

KINDS = (AddPartitionsToTxnRequest, ProduceRequest, EndTxnRequest)


async def one_transaction(producer: Producer) -> None:
    async with producer.transaction():
        await producer.send("t", b"1")
        await trio.lowlevel.checkpoint()


async def cancel_after(steps: int, scope: trio.CancelScope) -> None:
    for _ in range(steps):
        await trio.lowlevel.checkpoint()
    scope.cancel()


async def assert_over(producer: Producer, broker: TransactionBroker) -> None:
    """Nothing is open, and the next transaction can be committed."""
    transactions = producer._transactions()
    assert transactions.state.phase is Phase.READY
    assert not broker.is_open
    await one_transaction(producer)
    assert broker.ends[-1]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_transaction_that_is_cancelled_while_a_request_is_answered_is_over(kind: type) -> None:
    broker = TransactionBroker()

    async def main() -> None:
        async with Producer("a:1", seams=broker.network.seams(), transactional_id="x", linger_ms=0) as producer:
            with trio.CancelScope() as scope:
                broker.on_request = lambda which: scope.cancel() if which is kind else None
                await one_transaction(producer)
            broker.on_request = lambda which: None
            await assert_over(producer, broker)

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize(("marker_writes", "version"), [(0, 1), (1, 1), (3, 1), (0, 2)])
def test_a_transaction_that_is_cancelled_at_any_step_is_over(marker_writes: int, version: int) -> None:
    broker = TransactionBroker(marker_writes, version)

    async def main() -> None:
        async with Producer("a:1", seams=broker.network.seams(), transactional_id="x", linger_ms=0) as producer:
            for steps in range(60):
                async with trio.open_nursery() as nursery:
                    with trio.CancelScope() as scope:
                        nursery.start_soon(cancel_after, steps, scope)
                        await one_transaction(producer)
                await assert_over(producer, broker)

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(("marker_writes", "version"), [(0, 1), (2, 1), (0, 2)])
def test_a_transaction_can_be_ended_whenever_its_offsets_are_cancelled(
    marker_writes: int, version: int, commit: bool
) -> None:
    broker = TransactionBroker(marker_writes, version)

    async def main() -> None:
        async with Producer("a:1", seams=broker.network.seams(), transactional_id="x", linger_ms=0) as producer:
            for steps in range(-1, 40):
                await producer.begin()
                async with trio.open_nursery() as nursery:
                    with trio.CancelScope() as scope:
                        if steps < 0:
                            scope.cancel()
                        nursery.start_soon(cancel_after, steps, scope)
                        await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, f"g{steps}")
                await (producer.commit() if commit else producer.abort())
                await assert_over(producer, broker)

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_whose_commit_was_cancelled_are_not_those_of_the_next_transaction(commit: bool) -> None:
    """In version 1 the group's coordinator knows a transaction by the epoch alone, and may get them late."""
    broker = TransactionBroker()

    def epochs() -> int:
        return sum(isinstance(one, InitProducerIdRequest) for one in broker.network.brokers[0].requests)

    async def main() -> None:
        async with Producer("a:1", seams=broker.network.seams(), transactional_id="x") as producer:
            for cancelled in (False, True):
                await producer.begin()
                with trio.CancelScope() as scope:
                    interrupt = cancelled and TxnOffsetCommitRequest
                    broker.on_request = lambda kind, at=interrupt, scope=scope: scope.cancel() if kind is at else None
                    await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
                await (producer.commit() if commit else producer.abort())
                assert epochs() == 1 + cancelled

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def left_at_once(producer: Producer, records: int) -> None:
    async with producer.transaction():
        for _ in range(records):
            await producer.send("t", bytes(1_000))
        raise LookupError


def test_a_transaction_that_is_left_before_the_producer_has_done_anything_is_over() -> None:
    """The second batch has the partition added in a task that has not begun when the transaction is aborted."""
    broker = TransactionBroker()

    async def main() -> None:
        options = {"transactional_id": "x", "linger_ms": 0, "batch_size": 2_000}
        async with Producer("a:1", seams=broker.network.seams(), **options) as producer:  # type: ignore[arg-type]
            for records in range(1, 10):
                await one_transaction(producer)
                with pytest.raises(LookupError):
                    await left_at_once(producer, records)
                await trio.sleep(1)
                await assert_over(producer, broker)

    trio.run(main, clock=MockClock(autojump_threshold=0))
