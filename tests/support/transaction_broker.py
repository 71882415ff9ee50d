"""A broker and transaction coordinator in memory, for producers with a transactional id."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, FinalizedFeatureKey
from minikafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from minikafka.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from support.fake_network import FakeNetwork


class TransactionBroker:
    """A broker and coordinator; it calls `on_request` before it answers.

    As Kafka's coordinator, it knows whether a transaction is open.

    Args:
        version: of transactions: with 2, leaders and offsets begin them, and an end that is repeated has another epoch.
        marker_writes: how many attempts to begin another transaction find the markers of the one before not written.

    Attributes:
        is_open: whether a transaction is open.
        ends: whether each transaction that has ended was committed.
    """

    def __init__(self, marker_writes: int = 0, version: int = 1) -> None:
        self.network = FakeNetwork({"t": [1]})
        self._version, self._epoch = version, 1
        self.is_open = False
        self._marker_writes, self._unwritten = marker_writes, 0
        self.ends: list[bool] = []
        self.on_request: Any = lambda kind: None
        found = Coordinator(node_id=1, host="a", port=1, error_message=None)
        written = [PartitionProduceResponse(index=0)]
        of_partition = TxnOffsetCommitResponsePartition(partition_index=0)
        committed = TxnOffsetCommitResponseTopic(name="t", partitions=[of_partition])
        topic_id = b"t".ljust(16, b"-")
        answers: dict[Any, Any] = {
            InitProducerIdRequest: InitProducerIdResponse(producer_id=5, producer_epoch=1),
            FindCoordinatorRequest: FindCoordinatorResponse(coordinators=[found]),
            ProduceRequest: ProduceResponse(
                responses=[TopicProduceResponse(name="t", topic_id=topic_id, partition_responses=written)]
            ),
        }
        handlers = {kind: lambda request, answer=answer: answer for kind, answer in answers.items()}
        handlers |= {
            AddPartitionsToTxnRequest: self._add,
            AddOffsetsToTxnRequest: self._add_offsets,
            ProduceRequest: self._begun_by(answers.pop(ProduceRequest)),
            TxnOffsetCommitRequest: self._begun_by(TxnOffsetCommitResponse(topics=[committed])),
            EndTxnRequest: self._end,
        }
        told = {kind: self._told(handler) for kind, handler in handlers.items()}
        self.network.broker("a", 1, {ApiVersionsRequest: self._api_versions, **told})

    def _told(self, handler: Any) -> Any:
        def handle(request: Any, version: int) -> Any:
            self.on_request(type(request))
            return handler(request)

        return handle

    def _api_versions(self, request: Any, version: int) -> Any:
        answer = self.network.api_versions(request, version)
        answer.finalized_features_epoch = 1
        answer.finalized_features = [
            FinalizedFeatureKey(
                name="transaction.version", max_version_level=self._version, min_version_level=self._version
            )
        ]
        return answer

    def _begun_by(self, answer: Any) -> Any:
        def handle(request: Any) -> Any:
            self.is_open = self.is_open or self._version == 2
            return answer

        return handle

    def _begin(self) -> ErrorCode:
        if self._unwritten:
            self._unwritten -= 1
            return ErrorCode.CONCURRENT_TRANSACTIONS
        self.is_open = True
        return ErrorCode.NONE

    def _add_offsets(self, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=self._begin())

    def _add(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        done = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=self._begin())
        added = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[done])
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[added])

    def _end(self, request: EndTxnRequest) -> EndTxnResponse:
        is_late = self._version == 1 or request.producer_epoch < self._epoch
        is_repeated = is_late and self.ends[-1:] == [request.committed]
        if self.is_open:
            self.is_open, self._unwritten = False, self._marker_writes
            self.ends.append(request.committed)
            self._epoch += 1
        elif not is_repeated and (self._version == 1 or request.committed):
            return EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
        return EndTxnResponse(producer_id=5, producer_epoch=self._epoch)
