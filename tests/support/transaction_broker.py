"""A broker and transaction coordinator in memory, for producers with a transactional id."""

from __future__ import annotations

from typing import Any

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
from support.fake_network import FakeNetwork


class TransactionBroker:
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
