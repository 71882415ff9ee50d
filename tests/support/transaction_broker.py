"""A broker and transaction coordinator in memory, for producers with a transactional id."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.error_codes import ErrorCode
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
    """A broker and coordinator; it calls `on_request` before it answers.

    Version 1 of transactions. As Kafka's coordinator, it knows whether one is open.

    Args:
        marker_writes: how many attempts to begin another transaction find the markers of the one before not written.

    Attributes:
        is_open: whether a transaction is open.
        ends: whether each transaction that has ended was committed.
    """

    def __init__(self, marker_writes: int = 0) -> None:
        self.network = FakeNetwork({"t": [1]})
        self.is_open = False
        self._marker_writes, self._unwritten = marker_writes, 0
        self.ends: list[bool] = []
        self.on_request: Any = lambda kind: None
        found = Coordinator(node_id=1, host="a", port=1, error_message=None)
        written = [PartitionProduceResponse(index=0)]
        topic_id = b"t".ljust(16, b"-")
        answers: dict[Any, Any] = {
            InitProducerIdRequest: InitProducerIdResponse(producer_id=5, producer_epoch=1),
            FindCoordinatorRequest: FindCoordinatorResponse(coordinators=[found]),
            ProduceRequest: ProduceResponse(
                responses=[TopicProduceResponse(name="t", topic_id=topic_id, partition_responses=written)]
            ),
        }
        handlers = {kind: lambda request, answer=answer: answer for kind, answer in answers.items()}
        handlers |= {AddPartitionsToTxnRequest: self._add, EndTxnRequest: self._end}
        self.network.broker("a", 1, {kind: self._told(handler) for kind, handler in handlers.items()})

    def _told(self, handler: Any) -> Any:
        def handle(request: Any, version: int) -> Any:
            self.on_request(type(request))
            return handler(request)

        return handle

    def _add(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        code = ErrorCode.NONE
        if self._unwritten:
            self._unwritten -= 1
            code = ErrorCode.CONCURRENT_TRANSACTIONS
        else:
            self.is_open = True
        done = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
        added = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[done])
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[added])

    def _end(self, request: EndTxnRequest) -> EndTxnResponse:
        if self.is_open:
            self.is_open, self._unwritten = False, self._marker_writes
            self.ends.append(request.committed)
        elif not self.ends or self.ends[-1] != request.committed:  # Else the request may be a repetition.
            return EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
        return EndTxnResponse()
