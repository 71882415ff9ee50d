"""Every record is over after `delivery_timeout_ms`, whatever the brokers do, and so is `flush`: on a virtual clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any

import pytest
import trio
from support.fake_network import FakeBroker, FakeNetwork, FakeStream, HangUp
from trio.testing import MockClock

from minikafka.client import Producer
from minikafka.client.connections.stream import Receiver
from minikafka.client.producer.transaction_state import AbortableTransactionError
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import RequestTimedOutError
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
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.records.batch import parse_header

LATENCY_S = 0.2
DELIVERY_TIMEOUT_S = 120
REQUEST_TIMEOUT_S = 30
PARTITIONS = 3
BATCHES = 4


class DistantStream(FakeStream):
    """A stream whose requests arrive after `LATENCY_S`."""

    def __init__(self, receiver: Receiver, broker: FakeBroker) -> None:
        super().__init__(receiver, broker)
        self._send, self._receive = trio.open_memory_channel[bytes](1000)

    def write(self, data: bytes) -> None:
        self._send.send_nowait(data)

    async def carry(self) -> None:
        async for data in self._receive:
            await trio.sleep(LATENCY_S)
            if self.open:
                super().write(data)


class Failing(FakeNetwork):
    """Two brokers; what is wrong with them from `break_down` on is the name of one of the methods.

    Attributes:
        produced: The times of Produce requests.
    """

    def __init__(self, wrong: str, *, transaction_version: int = 0) -> None:
        super().__init__({"t": [1] * PARTITIONS})
        self.leader_epoch = 1
        self.wrong = wrong
        self.is_broken = False
        self.transaction_version = transaction_version
        self.produced: list[float] = []
        self.sequences: dict[int, tuple[int, int]] = {}
        handlers: dict[Any, Any] = {
            ApiVersionsRequest: self._api_versions,
            FindCoordinatorRequest: self._find,
            InitProducerIdRequest: lambda request, version: InitProducerIdResponse(producer_id=9, producer_epoch=0),
            AddPartitionsToTxnRequest: self._add,
            EndTxnRequest: lambda request, version: EndTxnResponse(producer_id=9, producer_epoch=1),
        }
        for port in (1, 2):
            broker = self.broker("a", port, handlers)
            broker.handlers[ProduceRequest] = partial(self._produce, broker)
            broker.handlers[MetadataRequest] = self._metadata

    async def open_stream(self, host: str, port: int, receiver: Receiver, task_group: Any) -> FakeStream:
        await super().open_stream(host, port, receiver, task_group)
        broker = self.brokers[port - 1]
        stream = DistantStream(receiver, broker)
        broker.streams[-1] = stream
        task_group.start_soon(stream.carry)
        return stream

    def break_down(self) -> None:
        self.is_broken = True
        if self.wrong == "no leader":
            self.topics["t"] = [-1] * PARTITIONS
            self.leader_epoch += 1
        if self.wrong in ("dead", "all dead"):
            for broker in self.brokers[: 1 if self.wrong == "dead" else 2]:
                broker.die()

    def _produce(self, broker: FakeBroker, request: Any, version: int) -> Any:
        self.produced.append(trio.current_time())
        if self.wrong == "silent":
            return None
        answers = []
        for topic in request.topic_data:
            parts = [
                PartitionProduceResponse(index=one.index, error_code=self._append(one)) for one in topic.partition_data
            ]
            answers.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=parts))
        if self.wrong.startswith("hangs up"):
            raise HangUp
        nodes = []
        if self.wrong == "names another leader each time":
            self.leader_epoch += 1
            other = self.brokers[self.leader_epoch % 2]
            nodes = [NodeEndpoint(node_id=other.node_id, host="a", port=other.port)]
            for answer in answers:
                for part in answer.partition_responses:
                    part.current_leader = LeaderIdAndEpoch(leader_id=other.node_id, leader_epoch=self.leader_epoch)
        return ProduceResponse(responses=answers, node_endpoints=nodes)

    def _append(self, data: Any) -> ErrorCode:
        """Append a batch, if brokers do so now and its sequence numbers follow those before."""
        if self.wrong not in ("nothing", "hangs up afterwards"):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        batch = parse_header(data.records)
        epoch, expected = self.sequences.get(data.index, (batch.producer_epoch, batch.base_sequence))
        if batch.producer_epoch > epoch:
            epoch, expected = batch.producer_epoch, 0
        if (batch.producer_epoch, batch.base_sequence) == (epoch, expected):
            self.sequences[data.index] = (epoch, batch.last_sequence + 1)
            return ErrorCode.NONE
        if batch.producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        known = batch.base_sequence < expected
        return ErrorCode.DUPLICATE_SEQUENCE_NUMBER if known else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def _metadata(self, request: Any, version: int) -> Any:
        if self.is_broken and self.wrong == "knows nothing":
            answer = self.metadata(request, version)
            for topic in answer.topics:
                topic.error_code, topic.partitions = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
            return answer
        if self.is_broken and self.wrong == "silent":
            return None
        return self.metadata(request, version)

    def _api_versions(self, request: Any, version: int) -> Any:
        answer = self.api_versions(request, version)
        level = FinalizedFeatureKey(
            name="transaction.version", max_version_level=self.transaction_version, min_version_level=0
        )
        answer.finalized_features, answer.finalized_features_epoch = [level], 1
        return answer

    def _find(self, request: Any, version: int) -> Any:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=2, host="a", port=2, error_code=0, error_message=None)
                for key in request.coordinator_keys
            ]
        )

    def _add(self, request: Any, version: int) -> Any:
        topics = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=0)
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def on_virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test with a clock that jumps to the next deadline."""

    @wraps(test)
    def run(**arguments: Any) -> None:
        trio.run(partial(test, **arguments), clock=MockClock(autojump_threshold=0))

    return run


WRONG = [
    "not leader",
    "names another leader each time",
    "no leader",
    "knows nothing",
    "hangs up",
    "silent",
    "dead",
    "all dead",
]
KINDS: dict[str, dict[str, Any]] = {
    "idempotent": {},
    "not idempotent": {"enable_idempotence": False},
    "acks of the leader": {"enable_idempotence": False, "acks": 1},
    "transactional": {"transactional_id": "x"},
}


class Outcome:
    """When each record was over, and how."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, float]] = []
        self.over: dict[int, tuple[float, Any]] = {}

    async def send(self, producer: Producer, partition: int) -> None:
        number = len(self.sent)
        self.sent.append((partition, trio.current_time()))

        def over(metadata: Any, error: Any) -> None:
            self.over[number] = (trio.current_time(), error)

        await producer.send("t", b"x" * 200, partition=partition, on_delivery=over)

    def check(self, slack_s: float) -> None:
        assert len(self.over) == len(self.sent)
        for number, (partition, sent_at) in enumerate(self.sent):
            at, error = self.over[number]
            assert isinstance(error, RequestTimedOutError), error
            assert f"t-{partition} " in str(error)
            assert at - sent_at == pytest.approx(DELIVERY_TIMEOUT_S, abs=slack_s)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("kind", KINDS)
@on_virtual_time
async def test_every_record_fails_when_its_time_is_over_and_flush_ends(kind: str, wrong: str) -> None:
    network, outcome = Failing(wrong), Outcome()
    async with Producer("a:1,a:2", seams=network.seams(), linger_ms=0, batch_size=400, **KINDS[kind]) as producer:
        if kind == "transactional":
            await producer.begin()
        await producer.partitions_for("t")
        network.break_down()
        began = trio.current_time()
        for _ in range(BATCHES):
            for partition in range(PARTITIONS):
                await outcome.send(producer, partition)
            await trio.sleep(7)
        await producer.flush()
        assert trio.current_time() <= began + DELIVERY_TIMEOUT_S + 7 * BATCHES
        if kind != "transactional":
            outcome.check(slack_s=0.001)
            return
        assert len(outcome.over) == len(outcome.sent)
        with pytest.raises(AbortableTransactionError, match=r"t-\d not delivered within 120000 ms|max_block_ms"):
            await producer.commit()


@pytest.mark.slow
@pytest.mark.parametrize("down_s", [100, 125, 150, 300])
@pytest.mark.parametrize("wrong", ["not leader", "hangs up", "hangs up afterwards", "silent"])
@on_virtual_time
async def test_records_are_delivered_again_once_brokers_are_well_though_others_have_expired(
    wrong: str, down_s: float
) -> None:
    network, outcome = Failing(wrong), Outcome()
    async with Producer("a:1,a:2", seams=network.seams(), linger_ms=0, batch_size=400) as producer:
        await producer.partitions_for("t")
        network.wrong = "nothing"
        for _ in range(BATCHES):
            await outcome.send(producer, 0)
        await producer.flush()
        network.wrong = wrong
        network.break_down()
        well_at = trio.current_time() + down_s
        while trio.current_time() < well_at + 200:
            for _ in range(3):
                await outcome.send(producer, 0)
            await trio.sleep(3.5)
            if trio.current_time() > well_at:
                network.wrong, network.is_broken = "nothing", False
        last_sent = trio.current_time()
        await producer.flush()
        assert trio.current_time() < last_sent + 1
    failed = [at for number, (_, at) in enumerate(outcome.sent) if outcome.over[number][1] is not None]
    assert all(at < well_at - DELIVERY_TIMEOUT_S + REQUEST_TIMEOUT_S for at in failed)
