"""Failover: leaders that fail, fall silent or move while requests are in flight, on an in-memory network."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest
from support.batches import encode_batch
from support.fake_network import FakeBroker, FakeNetwork

from minikafka.client import Admin, Consumer, Producer
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.connections.cluster_metadata import BEHIND_MAX, Metadata
from minikafka.client.connections.stalled_requests import (
    PATIENCE_S,
    PATIENCE_WHERE_BROKERS_WAIT_S,
    StalledRequests,
)
from minikafka.client.options import AdminOptions, make
from minikafka.client.producer.producer_batch import Delivery
from minikafka.client.producer.sender import Sender
from minikafka.protocol.headers import response_parts
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from minikafka.protocol.messages.fetch import LeaderIdAndEpoch as FetchLeader
from minikafka.protocol.messages.fetch import NodeEndpoint as FetchEndpoint
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.records.batch import parse_header
from minikafka.protocol.records.record import Record

pytestmark = pytest.mark.anyio
TOPIC_ID = b"t" * 16
NOT_LEADER, FENCED_LEADER_EPOCH = 6, 74
QUICK = {"retry_backoff_ms": 2, "retry_backoff_max_ms": 10}
NEVER_AGAIN = {"reconnect_backoff_ms": 60_000, "reconnect_backoff_max_ms": 60_000}


class ThreeBrokers:
    """Brokers a:1, a:2, a:3 with one partition, whose log is one list shared by all.

    Attributes:
        leader: the leader since `epoch`.
        stale: the (leader, epoch) that Metadata responses report; None: the actual ones.
        live: the brokers that Metadata responses list.
        silent: brokers that accept requests and never respond.
        hints: whether other brokers name the leader in Produce and Fetch responses (KIP-951).
    """

    def __init__(self) -> None:
        self.network = FakeNetwork()
        self.leader, self.epoch = 1, 1
        self.stale: tuple[int, int] | None = None
        self.live = [1, 2, 3]
        self.silent: list[int] = []
        self.hints = False
        self.values: list[bytes] = []
        self.last_sequence = -1
        self.metadata_asked = 0
        for port in (1, 2, 3):
            self._broker(port)

    def _broker(self, me: int) -> None:
        handlers = {
            MetadataRequest: lambda request, version: self.metadata(),
            InitProducerIdRequest: lambda request, version: InitProducerIdResponse(producer_id=5),
            ProduceRequest: lambda request, version: self.produce(request, me),
            FetchRequest: lambda request, version: self.fetch(request, me),
            ListOffsetsRequest: lambda request, version: ListOffsetsResponse(
                topics=[ListOffsetsTopicResponse(name="t", partitions=[ListOffsetsPartitionResponse(offset=0)])]
            ),
        }
        broker = self.network.broker("a", me)
        everything = {**broker.handlers, **handlers}
        broker.handlers = {api: self._unless_silent(me, handler) for api, handler in everything.items()}

    def _unless_silent(self, me: int, handler: Any) -> Any:
        return lambda request, version: None if me in self.silent else handler(request, version)

    def elect(self, leader: int) -> None:
        self.leader, self.epoch = leader, self.epoch + 1

    def metadata(self) -> MetadataResponse:
        self.metadata_asked += 1
        leader, epoch = self.stale or (self.leader, self.epoch)
        partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
        return MetadataResponse(
            cluster_id="fake",
            brokers=[MetadataResponseBroker(node_id=one, host="a", port=one) for one in self.live],
            topics=[MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=[partition])],
        )

    def produce(self, request: Any, me: int) -> ProduceResponse:
        answer = PartitionProduceResponse(index=0)
        batch = parse_header(request.topic_data[0].partition_data[0].records)
        if me != self.leader:
            answer.error_code = NOT_LEADER
            if self.hints:
                answer.current_leader = LeaderIdAndEpoch(leader_id=self.leader, leader_epoch=self.epoch)
        elif batch.base_sequence > self.last_sequence:
            answer.base_offset = len(self.values)
            self.values += [record.value or b"" for record in batch.records()]
            self.last_sequence = batch.last_sequence
        topic = TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[answer])
        endpoints = [NodeEndpoint(node_id=self.leader, host="a", port=self.leader)] if self.hints else []
        return ProduceResponse(responses=[topic], node_endpoints=endpoints)

    def fetch(self, request: Any, me: int) -> FetchResponse | None:
        asked = request.topics[0].partitions[0]
        data = PartitionData(aborted_transactions=None)
        endpoints = []
        if me != self.leader:
            data.error_code = NOT_LEADER
            if self.hints:
                data.current_leader = FetchLeader(leader_id=self.leader, leader_epoch=self.epoch)
                endpoints = [FetchEndpoint(node_id=self.leader, host="a", port=self.leader)]
        elif asked.current_leader_epoch < self.epoch:
            data.error_code = FENCED_LEADER_EPOCH
        elif asked.fetch_offset >= len(self.values):
            return None
        else:
            records = [Record(-1, 0, None, value) for value in self.values[asked.fetch_offset :]]
            data.records = encode_batch(records, base_offset=asked.fetch_offset)
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
        return FetchResponse(responses=[topic], node_endpoints=endpoints)

    def producer(self, **options: Any) -> Producer:
        options = {"linger_ms": 0, **QUICK, **options}
        return Producer("a:3", seams=self.network.seams(), **options)

    def consumer(self, **options: Any) -> Consumer:
        options = {"auto_offset_reset": "earliest", **QUICK, **options}
        return Consumer("t", bootstrap_servers="a:3", seams=self.network.seams(), **options)


async def test_a_new_leader_is_found_within_one_refresh_despite_reconnect_backoff() -> None:
    brokers = ThreeBrokers()
    async with brokers.producer(**NEVER_AGAIN) as producer:
        await producer.send_and_wait("t", b"0")
        brokers.network.brokers[0].die()
        delivery = await producer.send("t", b"1")
        before = brokers.metadata_asked
        with anyio.fail_after(20):
            while brokers.metadata_asked < before + 5:
                await anyio.sleep(0.001)  # There is no leader yet: the producer keeps refreshing.
            brokers.elect(2)
            asked = brokers.metadata_asked
            await delivery.wait()
        assert brokers.metadata_asked <= asked + 2
    assert brokers.values == [b"0", b"1"]


async def test_a_leader_hint_is_followed_at_once() -> None:
    brokers = ThreeBrokers()
    brokers.hints = True
    async with brokers.producer(retry_backoff_ms=60_000, retry_backoff_max_ms=60_000) as producer:
        await producer.send_and_wait("t", b"0")
        brokers.elect(3)
        with anyio.fail_after(20):
            await producer.send_and_wait("t", b"1")
    assert brokers.values == [b"0", b"1"]


async def test_a_consumer_follows_leader_hints() -> None:
    brokers = ThreeBrokers()
    brokers.hints = True
    brokers.values = [b"0", b"1"]
    async with brokers.consumer() as consumer:
        with anyio.fail_after(20):
            assert [one.value for one in await consumer.poll(20_000)] == [b"0", b"1"]
            brokers.stale = (1, 1)  # metadata names the old leader
            brokers.elect(3)
            brokers.values.append(b"2")
            brokers.network.brokers[0].hang_up()
            assert [one.value for one in await consumer.poll(20_000)] == [b"2"]


async def test_stale_metadata_does_not_restore_the_old_leader() -> None:
    brokers = ThreeBrokers()
    async with brokers.producer() as producer:
        await producer.send_and_wait("t", b"0")
        brokers.elect(2)
        with anyio.fail_after(20):
            await producer.send_and_wait("t", b"1")
            brokers.stale = (1, 1)
            await producer.cluster.refresh()
            assert producer.cluster.metadata.leader("t", 0) == 2
            await producer.send_and_wait("t", b"2")
    assert brokers.values == [b"0", b"1", b"2"]


async def test_a_fenced_leader_epoch_causes_a_refresh() -> None:
    brokers = ThreeBrokers()
    brokers.values = [b"0"]
    async with brokers.consumer() as consumer:
        brokers.epoch += 1  # the same leader is elected again
        with anyio.fail_after(20):
            assert [one.value for one in await consumer.poll(20_000)] == [b"0"]


async def test_a_silent_leader_is_abandoned_once_it_has_left_the_metadata() -> None:
    brokers = ThreeBrokers()
    async with brokers.producer() as producer:
        await producer.send_and_wait("t", b"0")
        brokers.silent = [1]
        deliveries = [await producer.send("t", b"%d" % n) for n in range(1, 4)]
        await anyio.sleep(0.05)
        brokers.live = [2, 3]
        brokers.elect(2)
        with anyio.fail_after(20):
            for delivery in deliveries:
                await delivery.wait()
    assert brokers.values == [b"0", b"1", b"2", b"3"]


async def test_a_silent_bootstrap_broker_is_skipped() -> None:
    brokers = ThreeBrokers()
    brokers.silent = [1]
    options = make(AdminOptions, {"bootstrap_servers": "a:1,a:2"}, "Admin")
    with anyio.fail_after(20):
        async with ClusterClient(options, brokers.network.seams()) as client:
            assert client.cluster.metadata.cluster_id == "fake"


async def test_another_broker_is_asked_when_one_is_silent() -> None:
    brokers = ThreeBrokers()
    options = make(AdminOptions, {"bootstrap_servers": "a:1"}, "Admin")
    async with ClusterClient(options, brokers.network.seams()) as client:
        brokers.silent = [1]
        with anyio.fail_after(20):
            await client.cluster.refresh()
        asked = [type(one) for one in brokers.network.brokers[1].requests]
        assert asked == [ApiVersionsRequest, MetadataRequest]


async def test_batches_that_become_due_during_a_send_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    pump = Sender.pump

    def slow(self: Sender) -> None:
        pump(self)
        time.sleep(0.03)  # longer than linger_ms

    monkeypatch.setattr(Sender, "pump", slow)
    brokers = ThreeBrokers()
    async with brokers.producer(linger_ms=20) as producer:
        with anyio.fail_after(20):
            await producer.send_and_wait("t", b"0")
            await producer.send_and_wait("t", b"1")
    assert brokers.values == [b"0", b"1"]


async def test_batches_behind_one_that_waited_for_a_connection_are_sent() -> None:
    brokers = ThreeBrokers()
    brokers.hints = True
    old = brokers.network.brokers[0]
    async with brokers.producer(retry_backoff_ms=200, retry_backoff_max_ms=200) as producer:
        await producer.send_and_wait("t", b"0")
        brokers.silent = [1]
        deliveries = [await in_flight(producer, old, b"%d" % number) for number in (1, 2)]
        brokers.silent = []
        brokers.elect(2)
        for number in (len(old.requests) - 1, len(old.requests)):  # the first names the leader: no back-off
            answer = brokers.produce(old.requests[number - 1], me=1)
            old.streams[0].say(b"".join(bytes(part) for part in response_parts(answer, 13, number)))
        with anyio.fail_after(20):
            for delivery in deliveries:
                await delivery.wait()
    assert brokers.values == [b"0", b"1", b"2"]


async def in_flight(producer: Producer, broker: FakeBroker, value: bytes) -> Delivery:
    """Send a record in a request of its own; return once the broker has received it."""
    before = len(broker.requests)
    delivery = await producer.send("t", value)
    with anyio.fail_after(20):
        while len(broker.requests) == before:
            await anyio.sleep(0.001)
    return delivery


def test_leader_hints_apply_only_with_a_newer_epoch() -> None:
    metadata = Metadata()
    brokers = ThreeBrokers()
    brokers.epoch = 5
    metadata.apply(brokers.metadata(), ["t"])
    far = [NodeEndpoint(node_id=9, host="b", port=9)]
    assert not metadata.learn("t", 0, LeaderIdAndEpoch(leader_id=2, leader_epoch=5), [])
    assert not metadata.learn("t", 0, LeaderIdAndEpoch(), [])
    assert not metadata.learn("t", 1, LeaderIdAndEpoch(leader_id=2, leader_epoch=6), [])
    assert not metadata.learn("u", 0, LeaderIdAndEpoch(leader_id=2, leader_epoch=6), [])
    assert not metadata.learn("t", 0, LeaderIdAndEpoch(leader_id=9, leader_epoch=6), [])
    assert metadata.learn("t", 0, LeaderIdAndEpoch(leader_id=9, leader_epoch=6), far)
    assert (metadata.leader("t", 0), metadata.leader_epoch("t", 0), metadata.brokers[9].host) == (9, 6, "b")


def test_a_leader_of_an_earlier_epoch_than_a_committed_offset_is_forgotten_until_a_later_one_is_told() -> None:
    metadata = Metadata()
    brokers = ThreeBrokers()
    brokers.epoch = 5
    metadata.apply(brokers.metadata(), ["t"])
    first = metadata.leader("t", 0)
    assert first >= 0
    for epoch in (-1, 4, 5):
        assert not metadata.learn_epoch("t", 0, epoch)
    assert not metadata.learn_epoch("t", 9, 6)
    assert not metadata.learn_epoch("u", 0, 6)
    assert metadata.learn_epoch("t", 0, 6)
    for number in range(1, BEHIND_MAX + 1):
        assert (metadata.leader("t", 0), metadata.leader_epoch("t", 0)) == (-1, 6)
        metadata.apply(brokers.metadata(), ["t"])
        assert metadata.behind == number
    metadata.apply(brokers.metadata(), ["t"])  # The offset was that of another topic of this name.
    assert (metadata.leader("t", 0), metadata.leader_epoch("t", 0), metadata.behind) == (first, 5, 0)
    assert not metadata.learn_epoch("t", 0, 6)
    assert metadata.learn_epoch("t", 0, 7)
    brokers.epoch = 7
    metadata.apply(brokers.metadata(), ["t"])
    assert (metadata.leader("t", 0), metadata.leader_epoch("t", 0), metadata.behind) == (first, 7, 0)


class Waiting:
    """A connection whose oldest request has this correlation id."""

    def __init__(self, oldest: int) -> None:
        self.oldest = oldest


def test_a_connection_is_stalled_when_the_same_request_stays_the_oldest() -> None:
    stalls, idle, busy, stuck = StalledRequests(), Waiting(0), Waiting(1), Waiting(1)
    reasons = []
    for now in (10.0, 10.1, 10.0 + PATIENCE_S - 0.01, 10.0 + PATIENCE_S):
        reasons.append(stalls.check([("", idle), ("", busy), ("", stuck)], now))  # type: ignore[list-item]
        busy.oldest += 1
    assert reasons == [False, False, False, True]
    assert [one in stalls for one in (idle, busy, stuck)] == [False, False, True]  # type: ignore[operator]
    stuck.oldest += 1
    assert not stalls.check([("", stuck)], now + 100)  # type: ignore[list-item]
    assert stuck not in stalls  # type: ignore[operator]


def test_other_stalled_connections_cause_refreshes_at_regular_intervals() -> None:
    stalls, waiting = StalledRequests(), Waiting(1)
    times = [step / 8 for step in range(20)]
    looks = [now for now in times if stalls.check([("", waiting)], now)]  # type: ignore[list-item]
    assert looks == [PATIENCE_S * times for times in (1, 2, 3, 4)]


def test_stalled_fetch_connections_cause_refreshes_at_growing_intervals() -> None:
    stalls, waiting = StalledRequests(), Waiting(1)
    times = [step / 2 for step in range(30)]
    looks = [now for now in times if stalls.check([("fetch", waiting)], now)]  # type: ignore[list-item]
    assert looks == [PATIENCE_WHERE_BROKERS_WAIT_S * times for times in (1, 2, 4, 8)]


async def test_an_idle_client_sleeps_until_it_sends_a_request() -> None:
    brokers = ThreeBrokers()
    async with Admin("a:1", seams=brokers.network.seams(), **QUICK) as admin:
        checks: list[float] = []
        check = admin.cluster._stalled.check
        admin.cluster._stalled.check = lambda *given: checks.append(given[1]) or check(*given)  # type: ignore[method-assign, func-returns-value]
        await anyio.sleep(0.3)
        idle = len(checks)
        await admin.list_topics()
        await anyio.sleep(0.3)
    assert idle <= 1
    assert len(checks) <= idle + 2


async def test_a_busy_brokers_request_is_awaited_while_others_are_asked() -> None:
    brokers = ThreeBrokers()
    asked: list[CreateTopicsRequest] = []
    brokers.network.brokers[0].handlers[CreateTopicsRequest] = lambda request, version: asked.append(request)
    async with Admin("a:1", seams=brokers.network.seams(), **QUICK) as admin, anyio.create_task_group() as tasks:
        tasks.start_soon(admin.create_topic, "new")
        with anyio.fail_after(20):
            while not any(one in admin.cluster._stalled for _, one in admin.cluster._open()):
                await anyio.sleep(0.01)
        await admin.cluster.refresh()  # asks others
        [stream] = [one for one in brokers.network.brokers[0].streams if one.open]
        assert len(asked) == 1, "and the request was not repeated"
        answer = CreateTopicsResponse(topics=[CreatableTopicResult(name="new", error_message=None)])
        number = brokers.network.brokers[0].requests.index(asked[0]) + 1
        stream.say(b"".join(bytes(part) for part in response_parts(answer, 7, number)))
