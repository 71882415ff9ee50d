"""What brokers ask each other about very many partitions: a node refuses requests of more elements than its bound, and
closes their connection, so that they would be sent again for ever."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from support.coordinator_steps import counted_calls
from support.images import three_brokers, with_topic
from support.transaction_bench import Bench, Markers, in_trio

from minikafka.broker.connections.large_messages import ELEMENTS_MAX
from minikafka.broker.coordinator.transactions.broker_requests import BrokerConnections
from minikafka.broker.coordinator.transactions.completion import TRANSACTION_WORK, WORK_AT_ONCE
from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity
from minikafka.broker.coordinator.transactions.marker_channel import MarkerChannel
from minikafka.broker.coordinator.transactions.marker_log import Marker, MarkerLog
from minikafka.broker.coordinator.transactions.transaction_coordinator import TOPIC, TransactionCoordinator
from minikafka.broker.coordinator.transactions.transaction_questions import ClientSupport, Results, TransactionQuestions
from minikafka.broker.coordinator.transactions.transaction_settings import TransactionSettings
from minikafka.controller.metadata.image import Image
from minikafka.protocol.elements import count_elements
from minikafka.protocol.errors import ErrorCode, NetworkError
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from minikafka.protocol.names import TopicPartition

SIZES = {
    "many transactions": [30] * 600,
    "a large one": [12_000],
    "each topic once": [2 * ELEMENTS_MAX],
    "of all sizes": [1, 5_000, 3, 4_999, 7_000, *range(1, 100)],
}
"""The partitions of transactions that are ended, or written to, at once."""


class OtherNode:
    """Connections to a node that closes them where a request has too many elements."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.requests = 0

    async def request(self, node_id: int, message: Any) -> Any:
        await trio.lowlevel.checkpoint()
        self.requests += 1
        if count_elements(message) > ELEMENTS_MAX:
            raise NetworkError("closed")
        return _written(message) if isinstance(message, WriteTxnMarkersRequest) else _verified(message)


def _written(message: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=one.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=0)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in one.topics
                ],
            )
            for one in message.markers
        ]
    )


def _verified(message: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
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
                    for topic in one.topics
                ],
            )
            for one in message.transactions
        ]
    )


def partitions_of(sizes: Iterable[int], *, topic_each: bool) -> list[frozenset[TopicPartition]]:
    if topic_each:
        return [frozenset(TopicPartition(f"t{number}", 0) for number in range(size)) for size in sizes]
    return [frozenset(TopicPartition("t", number) for number in range(size)) for size in sizes]


def image_of(sets: list[frozenset[TopicPartition]]) -> Image:
    """All partitions are led by node 2."""
    image = with_topic(three_brokers(), TOPIC, (2,))
    counts: dict[str, int] = {}
    for topic, index in frozenset().union(*sets):
        counts[topic] = max(counts.get(topic, 0), index + 1)
    for topic in sorted(counts):
        image = with_topic(image, topic, *[(2,)] * counts[topic])
    return image


@pytest.mark.parametrize("sizes", ["many transactions", "a large one", "of all sizes"])
def test_markers_are_written_however_many_end_together(sizes: str) -> None:
    sets = partitions_of(SIZES[sizes], topic_each=False)

    async def body() -> None:
        async with trio.open_nursery() as nursery:
            other = OtherNode(nursery)
            channel = MarkerChannel(1, image_of(sets), cast(MarkerLog, None), cast(BrokerConnections, other))

            async def write(number: int, partitions: frozenset[TopicPartition]) -> None:
                await channel.write(Marker(number, 0, True, 0, 2), partitions)

            with trio.fail_after(5):
                async with trio.open_nursery() as writing:
                    for number, partitions in enumerate(sets):
                        writing.start_soon(write, number, partitions)
            elements = sum(1 + 2 * size for size in SIZES[sizes])
            assert other.requests <= 3 + 2 * elements // ELEMENTS_MAX, "they still share requests"

    in_trio(body)


@pytest.mark.parametrize("sizes", SIZES)
def test_partitions_are_verified_however_many_are_written_together(sizes: str) -> None:
    sets = partitions_of(SIZES[sizes], topic_each=sizes == "each topic once")

    async def body() -> None:
        async with trio.open_nursery() as nursery:
            verifier = TransactionQuestions(
                node_id=1,
                image=with_topic(three_brokers(), TOPIC, (2,)),
                coordinator=cast(TransactionCoordinator, SimpleNamespace(partition_of=lambda key: 0)),
                connections=cast(BrokerConnections, OtherNode(nursery)),
                settings=TransactionSettings(),
                is_enabled=lambda: True,
            )
            results: dict[int, Results] = {}

            async def verify(number: int, partitions: frozenset[TopicPartition]) -> None:
                support = ClientSupport.TRANSACTION_ABORTABLE
                producer = ProducerIdentity(number, 0)
                results[number] = await verifier.verify(f"id {number}", producer, partitions, support)

            async with trio.open_nursery() as verifying:
                for number, partitions in enumerate(sets):
                    verifying.start_soon(verify, number, partitions)
            for number, partitions in enumerate(sets):
                assert results[number] == dict.fromkeys(partitions, ErrorCode.NONE)

    in_trio(body)


@pytest.mark.parametrize("size", [1, 10, 50, 1_000])
def test_between_two_pauses_few_markers_are_written(size: int) -> None:
    """However many partitions each of the transactions has that end together."""

    async def body() -> None:
        bench = Bench()
        bench.markers.at_once = True
        (partitions,) = partitions_of([size], topic_each=False)
        async with bench.running() as coordinator:
            shard = next(iter(coordinator.runtime.states()))
            for number in range(200):
                name = f"id {number}"
                producer = await coordinator.init_producer_id(name, 60_000, None)
                added = await coordinator.add_partitions(name, producer, partitions, client_version=2)
                assert added is ErrorCode.NONE
            for key, one in list(shard.transactions.items()):
                shard.apply(key, one.prepared(0, 2, commit=True), 0, -1)
            with counted_calls(Markers, "write") as steps:
                await trio.testing.wait_all_tasks_blocked()
        assert sum(steps.counts) == len(bench.markers.written) == 200
        assert max(steps.counts) == max(1, WORK_AT_ONCE // (TRANSACTION_WORK + size))

    in_trio(body)
