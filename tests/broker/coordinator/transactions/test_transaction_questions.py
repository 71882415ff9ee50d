"""What a broker asks the coordinators of other nodes about partitions before it appends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import trio
import trio.testing
from support.images import three_brokers, with_topic
from support.transaction_bench import in_trio

from minikafka.broker.coordinator.transactions.broker_requests import BrokerConnections
from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity
from minikafka.broker.coordinator.transactions.transaction_coordinator import TOPIC, TransactionCoordinator
from minikafka.broker.coordinator.transactions.transaction_questions import ClientSupport, Results, TransactionQuestions
from minikafka.broker.coordinator.transactions.transaction_settings import TransactionSettings
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from minikafka.protocol.names import TopicPartition

PRODUCER = ProducerIdentity(7, 0)


class OtherNode:
    """Connections to a coordinator that answers as Kafka's: for an id named twice, the partitions named last."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.asked: list[list[str]] = []
        self.answering = trio.Event()

    async def request(self, node_id: int, message: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        self.asked.append([one.transactional_id for one in message.transactions])
        await self.answering.wait()
        topics = {one.transactional_id: one.topics for one in message.transactions}
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(partition_index=index) for index in topic.partitions
                            ],
                        )
                        for topic in topics[one.transactional_id]
                    ],
                )
                for one in message.transactions
            ]
        )


def test_an_id_is_named_once_in_a_request_and_every_partition_is_answered() -> None:
    async def body() -> None:
        async with trio.open_nursery() as nursery:
            other = OtherNode(nursery)
            verifier = TransactionQuestions(
                node_id=1,
                image=with_topic(three_brokers(), TOPIC, (2,)),
                coordinator=cast(TransactionCoordinator, SimpleNamespace(partition_of=lambda key: 0)),
                connections=cast(BrokerConnections, other),
                settings=TransactionSettings(),
                is_enabled=lambda: True,
            )
            results: dict[int, Results] = {}

            async def verify(transactional_id: str, partition: int) -> None:
                name = TopicPartition("t", partition)
                results[partition] = await verifier.verify(
                    transactional_id, PRODUCER, frozenset([name]), ClientSupport.TRANSACTION_ABORTABLE
                )

            for partition, transactional_id in enumerate(["first", "a", "b", "a", "c"]):
                nursery.start_soon(verify, transactional_id, partition)
                await trio.testing.wait_all_tasks_blocked()
            other.answering.set()
        assert results == {index: {TopicPartition("t", index): ErrorCode.NONE} for index in range(5)}
        assert other.asked == [["first"], ["a", "b"], ["a", "c"]]

    in_trio(body)
