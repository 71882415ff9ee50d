"""A transaction whose block is cancelled is over: aborted, or committed if the coordinator may know of the commit."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork
from trio.testing import MockClock

from minikafka.client import Producer
from minikafka.client.producer.transaction_state import Phase
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from minikafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from minikafka.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

KINDS = (AddPartitionsToTxnRequest, ProduceRequest, EndTxnRequest)


class Broker:
    """A broker and coordinator; it calls `on_request` before it answers, and may answer later."""

    def __init__(self) -> None:
        self.network = FakeNetwork({"t": [1]})
        self.ends: list[bool] = []
        self.on_request: Any = lambda kind: None
        found = Coordinator(node_id=1, host="a", port=1, error_message=None)
        done = AddPartitionsToTxnPartitionResult(partition_index=0)
        added = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[done])
        written = [PartitionProduceResponse(index=0)]
        topic_id = b"t".ljust(16, b"-")
        answers: dict[Any, Any] = {
            InitProducerIdRequest: InitProducerIdResponse(producer_id=5, producer_epoch=1),
            FindCoordinatorRequest: FindCoordinatorResponse(coordinators=[found]),
            AddPartitionsToTxnRequest: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[added]),
            ProduceRequest: ProduceResponse(
                responses=[TopicProduceResponse(name="t", topic_id=topic_id, partition_responses=written)]
            ),
            EndTxnRequest: EndTxnResponse(),
        }
        self.network.broker("a", 1, {kind: self.answer(answer) for kind, answer in answers.items()})

    def answer(self, answer: Any) -> Any:
        def handle(request: Any, version: int) -> Any:
            self.on_request(type(request))
            if isinstance(request, EndTxnRequest):
                self.ends.append(request.committed)
            return answer

        return handle


async def one_transaction(producer: Producer) -> None:
    async with producer.transaction():
        await producer.send("t", b"1")
        await trio.lowlevel.checkpoint()


async def assert_over(producer: Producer, broker: Broker) -> None:
    """Nothing is open, and the next transaction can be committed."""
    transactions = producer._transactions()
    assert transactions.state.phase is Phase.READY
    if transactions.state.started:
        assert broker.ends
    await one_transaction(producer)
    assert broker.ends[-1]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_transaction_that_is_cancelled_while_a_request_is_answered_is_over(kind: type) -> None:
    broker = Broker()

    async def main() -> None:
        async with Producer("a:1", seams=broker.network.seams(), transactional_id="x", linger_ms=0) as producer:
            with trio.CancelScope() as scope:
                broker.on_request = lambda which: scope.cancel() if which is kind else None
                await one_transaction(producer)
            broker.on_request = lambda which: None
            await assert_over(producer, broker)

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_transaction_that_is_cancelled_at_any_step_is_over() -> None:
    broker = Broker()

    async def cancel_after(steps: int, scope: trio.CancelScope) -> None:
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        scope.cancel()

    async def main() -> None:
        async with Producer("a:1", seams=broker.network.seams(), transactional_id="x", linger_ms=0) as producer:
            for steps in range(60):
                async with trio.open_nursery() as nursery:
                    with trio.CancelScope() as scope:
                        nursery.start_soon(cancel_after, steps, scope)
                        await one_transaction(producer)
                await assert_over(producer, broker)

    trio.run(main, clock=MockClock(autojump_threshold=0))
