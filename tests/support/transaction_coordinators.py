"""Scripted coordinators of transactions, in both versions, on virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any

import trio
from trio.testing import MockClock

from minikafka.client import Producer, TopicPartition
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

NONE = ErrorCode.NONE
NAMES = {
    InitProducerIdRequest: "init",
    AddPartitionsToTxnRequest: "add",
    ProduceRequest: "produce",
    AddOffsetsToTxnRequest: "offsets",
    TxnOffsetCommitRequest: "commit",
    EndTxnRequest: "end",
    FindCoordinatorRequest: "find",
}
OFFSETS = {TopicPartition("in", 0): 7}


class Coordinators:
    """A broker that leads every partition and coordinates everything.

    Attributes:
        errors: The next errors of each request, by name; none once they are used up.
        asked: The names of the requests, in order, without `find`.
        ends: (epoch, committed) of each EndTxn.
        versions: The version of each request.
    """

    def __init__(self, version: int, **errors: list[ErrorCode]) -> None:
        self.version = version
        self.errors = {name: deque(codes) for name, codes in errors.items()}
        self.asked: list[str] = []
        self.finds = 0
        self.epoch = -1
        self.ends: list[tuple[int, bool]] = []
        self.versions: dict[str, int] = {}
        self.network = FakeNetwork({"t": [1, 1]})
        handlers = {
            InitProducerIdRequest: self._init,
            AddPartitionsToTxnRequest: self._add,
            ProduceRequest: self._produce,
            AddOffsetsToTxnRequest: self._offsets,
            TxnOffsetCommitRequest: self._commit,
            EndTxnRequest: self._end,
            FindCoordinatorRequest: self._find,
            ApiVersionsRequest: self._api_versions,
        }
        self.network.broker("a", 1, handlers)

    def producer(self, **options: Any) -> Producer:
        return Producer("a:1", seams=self.network.seams(), transactional_id="x", **{"linger_ms": 0, **options})

    def _next(self, request: Any, version: int) -> ErrorCode:
        name = NAMES[type(request)]
        self.versions[name] = version
        self.asked.append(name)
        errors = self.errors.get(name)
        return errors.popleft() if errors else NONE

    def _api_versions(self, request: Any, version: int) -> Any:
        answer = self.network.api_versions(request, version)
        level = FinalizedFeatureKey(name="transaction.version", max_version_level=self.version, min_version_level=0)
        answer.finalized_features = [level]
        answer.finalized_features_epoch = 1
        return answer

    def _find(self, request: Any, version: int) -> Any:
        self.finds += 1
        coordinators = [
            Coordinator(key=key, node_id=1, host="a", port=1, error_code=0, error_message=None)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=coordinators)

    def _init(self, request: Any, version: int) -> Any:
        error = self._next(request, version)
        self.epoch += error is NONE
        return InitProducerIdResponse(error_code=error, producer_id=9, producer_epoch=self.epoch)

    def _add(self, request: Any, version: int) -> Any:
        error = self._next(request, version)
        results = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)

    def _produce(self, request: Any, version: int) -> Any:
        error = self._next(request, version)
        assert request.transactional_id in ("x", None)
        responses = [
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=one.index, error_code=error, base_offset=0)
                    for one in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
        return ProduceResponse(responses=responses)

    def _offsets(self, request: Any, version: int) -> Any:
        return AddOffsetsToTxnResponse(error_code=self._next(request, version))

    def _commit(self, request: Any, version: int) -> Any:
        partition = TxnOffsetCommitResponsePartition(partition_index=0, error_code=self._next(request, version))
        return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="in", partitions=[partition])])

    def _end(self, request: Any, version: int) -> Any:
        error = self._next(request, version)
        if error is not NONE:
            return EndTxnResponse(error_code=error)
        self.ends.append((request.producer_epoch, request.committed))
        if version < 5:
            return EndTxnResponse()
        self.epoch += 1
        return EndTxnResponse(producer_id=9, producer_epoch=self.epoch)


def on_virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test with a clock that jumps to the next deadline."""

    @wraps(test)
    def run(**arguments: Any) -> None:
        trio.run(partial(test, **arguments), clock=MockClock(autojump_threshold=0))

    return run


async def whole(producer: Producer) -> None:
    """A transaction with a record and an offset."""
    async with producer.transaction():
        await producer.send("t", b"", partition=0)
        await producer.send_offsets_to_transaction(OFFSETS, "g")
