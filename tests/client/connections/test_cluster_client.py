"""`Cluster` with moving leaders, failing brokers and missing topics, on an in-memory network."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
import trio
from support.batches import encode_batch
from support.clients import until_answered
from support.fake_network import FakeNetwork
from trio.testing import MockClock

from minikafka.client import Consumer, Producer
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.connections.cluster_metadata import BEHIND_MAX, Metadata
from minikafka.client.options import AdminOptions, make
from minikafka.protocol.errors import InvalidTopicError, NetworkError, UnknownTopicOrPartitionError, error_for
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
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
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.records.batch import parse_header
from minikafka.protocol.records.record import Record

pytestmark = pytest.mark.anyio
PATIENT = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 5}


class Logs:
    """Handles Produce and Fetch of brokers with one topic `t`; only the leader accepts them."""

    def __init__(self, network: FakeNetwork) -> None:
        self.network = network
        self.values: list[bytes] = []
        for port in (1, 2, 3):
            node_id = port
            network.broker(
                "a",
                port,
                {
                    InitProducerIdRequest: lambda request, version: InitProducerIdResponse(producer_id=5),
                    ProduceRequest: lambda request, version, me=node_id: self.produce(request, me),
                    FetchRequest: lambda request, version, me=node_id: self.fetch(request, me),
                    ListOffsetsRequest: self.list_offsets,
                },
            )

    def leads(self, node_id: int) -> bool:
        return self.network.topics["t"][0] == node_id

    def produce(self, request: Any, node_id: int) -> ProduceResponse:
        topic = request.topic_data[0]
        code = 0 if self.leads(node_id) else 6
        answer = PartitionProduceResponse(index=0, error_code=code, base_offset=len(self.values))
        if self.leads(node_id):
            batch = parse_header(topic.partition_data[0].records)
            self.values += [record.value or b"" for record in batch.records()]
        return ProduceResponse(
            responses=[TopicProduceResponse(topic_id=topic.topic_id, partition_responses=[answer])]
        )

    def fetch(self, request: Any, node_id: int) -> FetchResponse | None:
        topic = request.topics[0]
        start = topic.partitions[0].fetch_offset
        data = PartitionData(error_code=0 if self.leads(node_id) else 6, aborted_transactions=None)
        if self.leads(node_id) and start < len(self.values):
            records = [Record(-1, 0, None, value) for value in self.values[start : start + 10]]
            data.records = encode_batch(records, base_offset=start)
        elif self.leads(node_id):
            return None
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=topic.topic_id, partitions=[data])])

    def list_offsets(self, request: Any, version: int) -> ListOffsetsResponse:
        place = ListOffsetsPartitionResponse(offset=0)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[place])])


async def test_a_producer_follows_the_leader() -> None:
    network = FakeNetwork({"t": [1]})
    logs = Logs(network)
    async with Producer("a:1", seams=network.seams(), linger_ms=0, **PATIENT) as producer:
        for n, leader in enumerate((1, 2, 3, 1)):
            network.topics["t"] = [leader]
            with anyio.fail_after(60):
                assert (await producer.send_and_wait("t", b"%d" % n)).offset == n
    assert logs.values == [b"0", b"1", b"2", b"3"]


async def test_a_producer_outlives_its_bootstrap_broker() -> None:
    network = FakeNetwork({"t": [1]})
    logs = Logs(network)
    async with Producer("a:1", seams=network.seams(), linger_ms=0, **PATIENT) as producer:
        await producer.send_and_wait("t", b"0")
        network.topics["t"] = [2]
        network.brokers[0].die()
        with anyio.fail_after(60):
            await producer.send_and_wait("t", b"1")
    assert logs.values == [b"0", b"1"]


async def test_a_consumer_follows_the_leader() -> None:
    network = FakeNetwork({"t": [1]})
    logs = Logs(network)
    logs.values = [b"%d" % n for n in range(40)]
    seen: list[bytes] = []
    async with Consumer(
        "t", bootstrap_servers="a:1", seams=network.seams(), auto_offset_reset="earliest", **PATIENT
    ) as consumer:
        with anyio.fail_after(60):
            while len(seen) < 40:
                seen += [record.value for record in await consumer.poll(1000, max_records=7)]
                network.topics["t"] = [len(seen) // 7 % 3 + 1]
                if len(seen) % 14 == 0:
                    network.brokers[0].hang_up()
    assert seen == logs.values


async def test_every_bootstrap_address_is_tried() -> None:
    network = FakeNetwork({"t": [1]})
    network.broker("b", 7)
    options = make(AdminOptions, {"bootstrap_servers": "x:1,y:2,b:7"}, "Admin")
    async with ClusterClient(options, network.seams()) as client:
        assert client.cluster.metadata.cluster_id == "fake"
    network.brokers[0].die()
    options = make(AdminOptions, {"bootstrap_servers": "x:1,b:7", "socket_connection_setup_timeout_ms": 20}, "Admin")

    async def enter() -> None:
        async with ClusterClient(options, network.seams()):
            raise AssertionError("not reached")

    with pytest.raises(NetworkError, match=r"nobody listens at x:1; .*nobody listens at b:7"):
        await until_answered(enter)


def test_silent_bootstrap_addresses_cost_a_twentieth_of_a_second_each() -> None:
    """Machines that are switched off refuse nothing: their addresses are silent."""
    network = FakeNetwork({"t": [1]})
    for host in ("x", "y"):
        network.broker(host, 1, {ApiVersionsRequest: lambda request, version: None})
    network.broker("b", 7)
    options = make(AdminOptions, {"bootstrap_servers": "x:1,y:1,b:7"}, "Admin")

    async def main() -> None:
        began = trio.current_time()
        async with ClusterClient(options, network.seams()):
            assert trio.current_time() - began == pytest.approx(0.1)
        assert not any(stream.open for broker in network.brokers for stream in broker.streams)

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_broker_that_comes_back_is_found_while_another_one_is_silent() -> None:
    """One is frozen, the other one is being restarted: it refuses connections, and accepts them a second later."""
    network = FakeNetwork({"t": [1]})
    network.broker("x", 1, {ApiVersionsRequest: lambda request, version: None})
    options = make(AdminOptions, {"bootstrap_servers": "x:1,b:7"}, "Admin")

    async def main() -> None:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(start_later)
            async with ClusterClient(options, network.seams()):
                assert trio.current_time() - began < 2.5

    async def start_later() -> None:
        await trio.sleep(1)
        network.broker("b", 7)

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def test_a_client_waits_for_a_topic_to_exist() -> None:
    network = FakeNetwork()
    network.broker("a", 1)
    options = make(AdminOptions, {"bootstrap_servers": "a:1", **PATIENT}, "Admin")
    async with ClusterClient(options, network.seams()) as client:
        with pytest.raises(UnknownTopicOrPartitionError, match="within 500 ms"):
            await until_answered(lambda: client.cluster.topic("t", 500))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.cluster.topic, "t", 60_000)
            await anyio.sleep(0.01)
            network.topics["t"] = [1]


async def test_a_refresh_requested_during_another_refresh_is_not_lost() -> None:
    network = FakeNetwork({"t": [1]})
    network.broker("a", 1)
    options = make(AdminOptions, {"bootstrap_servers": "a:1", **PATIENT}, "Admin")
    async with ClusterClient(options, network.seams()) as client:
        updates: list[None] = []
        client.cluster.on_update = lambda: updates.append(None)
        await client.cluster.refresh()
        await anyio.sleep(0.01)
        for _ in range(3):
            before = len(updates)
            client.cluster.refresh_soon()
            with anyio.fail_after(60):
                while len(updates) == before:
                    await anyio.sleep(0.001)


async def test_fatal_errors_are_not_retried() -> None:
    network = FakeNetwork()
    network.broker("a", 1)
    options = make(AdminOptions, {"bootstrap_servers": "a:1"}, "Admin")
    async with ClusterClient(options, network.seams()) as client:
        attempts: list[None] = []

        async def attempt() -> None:
            attempts.append(None)
            raise InvalidTopicError("bad")

        with pytest.raises(InvalidTopicError, match="bad"):
            await client.cluster.retry(attempt, "trying")
        assert len(attempts) == 1


async def test_an_exception_leaves_the_block_as_it_was_raised() -> None:
    network = FakeNetwork()
    network.broker("a", 1)
    options = make(AdminOptions, {"bootstrap_servers": "a:1"}, "Admin")

    async def fail() -> None:
        async with ClusterClient(options, network.seams()):
            raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await fail()


def topic(
    name: str, *leaders: tuple[int, int], error_code: int = 0, topic_id: bytes = bytes(16)
) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=epoch)
        for index, (leader, epoch) in enumerate(leaders)
    ]
    return MetadataResponseTopic(name=name, error_code=error_code, topic_id=topic_id, partitions=partitions)


def answer(*topics: MetadataResponseTopic) -> MetadataResponse:
    """Of a cluster of three brokers."""
    brokers = [MetadataResponseBroker(node_id=one, host="a", port=one) for one in (1, 2, 3)]
    return MetadataResponse(brokers=brokers, topics=list(topics))


def test_metadata_of_an_older_leader_epoch_is_ignored() -> None:
    metadata = Metadata()
    metadata.apply(answer(topic("t", (1, 5), (2, 3))), ["t"])
    metadata.apply(answer(topic("t", (2, 4), (3, 4))), ["t"])
    assert (metadata.leader("t", 0), metadata.leader("t", 1)) == (1, 3)
    metadata.apply(answer(topic("t", (2, 0), topic_id=b"another".ljust(16))), ["t"])
    assert (metadata.leader("t", 0), metadata.leader("t", 1), metadata.leader("t", -1)) == (2, -1, -1)
    assert metadata.name_of(b"another".ljust(16)) == "t"


@pytest.mark.parametrize(("topic_id", "known"), [(b"an id".ljust(16), (-1, 5)), (bytes(16), (3, 0))])
def test_an_epoch_that_metadata_have_named_is_never_given_up(topic_id: bytes, known: tuple[int, int]) -> None:
    """An isolated former leader answered alone, and a consumer asked it: OFFSET_OUT_OF_RANGE (seed 4308). Without topic
    ids the topic may be another one."""
    metadata = Metadata()
    metadata.apply(answer(topic("t", (1, 5), topic_id=topic_id)), ["t"])
    metadata.apply(answer(topic("t", (-1, 5), topic_id=topic_id)), ["t"])
    for _ in range(2 * BEHIND_MAX):
        metadata.apply(answer(topic("t", (3, 0), topic_id=topic_id)), ["t"])
    assert (metadata.leader("t", 0), metadata.leader_epoch("t", 0)) == known


def test_metadata_keeps_topics_that_were_not_requested() -> None:
    metadata = Metadata()
    metadata.apply(MetadataResponse(topics=[topic("t", (1, 0)), topic("u", (1, 0))]), None)
    metadata.apply(MetadataResponse(topics=[topic("u", error_code=3)]), ["u"])
    assert list(metadata.topics) == ["t"]
    assert isinstance(metadata.errors["u"], UnknownTopicOrPartitionError)
    assert "topic 'u' does not exist" in str(metadata.errors["u"])
    metadata.apply(MetadataResponse(topics=[topic("u", (1, 0))]), None)
    assert (list(metadata.topics), metadata.errors) == (["u"], {})
    with pytest.raises(type(error_for(129))):
        metadata.apply(MetadataResponse(error_code=129), None)


async def test_a_cancelled_block_ends_and_the_cancellation_propagates() -> None:
    network = FakeNetwork({"t": [1]})
    network.broker("a", 1)
    options = make(AdminOptions, {"bootstrap_servers": "a:1"}, "Admin")
    ends: list[str] = []

    async def wait_forever() -> None:
        async with ClusterClient(options, network.seams()):
            try:
                scope.cancel()
                await anyio.sleep_forever()
            finally:
                ends.append("inside")
        ends.append("never")

    with anyio.CancelScope() as scope:
        await wait_forever()
    assert scope.cancelled_caught
    assert ends == ["inside"]
    assert all(not stream.open for stream in network.brokers[0].streams)


def test_asyncio_cancellation_and_timeouts_work() -> None:
    """`Task.cancel`, as a web server cancels a handler, is not known to anyio."""
    network = FakeNetwork({"t": [1]})
    network.broker("a", 1)
    options = make(AdminOptions, {"bootstrap_servers": "a:1"}, "Admin")

    async def handler() -> None:
        async with ClusterClient(options, network.seams()):
            await asyncio.sleep(60)

    async def serve() -> None:
        task = asyncio.create_task(handler())
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await handler()

    asyncio.run(serve())


def test_a_deleted_topic_is_not_asked_for_any_more_unless_somebody_waits_for_it() -> None:
    network = FakeNetwork({"t": [1], "u": [1]})
    broker = network.broker("a", 1)

    def asked() -> list[list[str]]:
        taken = [[one.name for one in each.topics] for each in broker.requests if isinstance(each, MetadataRequest)]
        broker.requests.clear()
        return taken

    async def main() -> None:
        async with ClusterClient(make(AdminOptions, {"bootstrap_servers": "a:1"}, "Admin"), network.seams()) as client:
            for name in network.topics:
                await client.cluster.topic(name, 1000)
            del network.topics["t"]
            client.cluster.refresh_soon()
            await trio.sleep(60)
            assert 2 < len(asked()) < 6
            assert (client.cluster.topics, client.cluster.metadata.errors) == ({"u": None}, {})
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.cluster.topic, "t", 60_000)
                await trio.sleep(30)
                network.topics["t"] = [1]
            assert client.cluster.metadata.leader("t", 0) == 1
            client.cluster.is_wanted = lambda name: name == "t"
            del network.topics["t"]
            client.cluster.refresh_soon()
            await trio.sleep(60)
            assert asked()[-1] == ["u", "t"]

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_metadata_that_stays_the_same_is_requested_more_and_more_rarely() -> None:
    """An election of less than a second is noticed at once, a leader that refuses for a minute costs little."""
    network = FakeNetwork({"t": [1]})
    broker = network.broker("a", 1)

    def requested() -> int:
        count = sum(isinstance(each, MetadataRequest) for each in broker.requests)
        broker.requests.clear()
        return count

    async def main() -> None:
        async with ClusterClient(make(AdminOptions, {"bootstrap_servers": "a:1"}, "Admin"), network.seams()) as client:
            await client.cluster.topic("t", 1000)
            requested()
            for seconds, (at_least, at_most) in ((1, (8, 13)), (59, (50, 80))):
                for _ in range(seconds * 20):
                    client.cluster.refresh_soon()
                    await trio.sleep(0.05)
                assert at_least <= requested() <= at_most

    trio.run(main, clock=MockClock(autojump_threshold=0))
