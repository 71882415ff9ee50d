"""What a broken or hostile broker answers, decodable but absurd, ends nothing: clients try again until it is right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import trio
from support.scripted_cluster import ScriptedCluster
from trio.testing import MockClock

from minikafka.client import Admin, Consumer, Producer, TopicPartition
from minikafka.client.connections.cluster_metadata import Metadata
from minikafka.client.connections.connection import Connection
from minikafka.client.connections.seams import open_stream
from minikafka.client.connections.stream import Receiver
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.list_offsets import ListOffsetsRequest
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

PORTS = (-(1 << 31), -1, 0, 65536, 65536 + 9092, (1 << 31) - 1)
HOSTS = ("", "\0", "x" * 32_767, "x" * 64 + ".example", "ä" * 70, "a..b", "a\u200e")
"""None of them is looked up at a name server."""
PARTITIONS = ((0, 2), (1, 2, 3), (0, 0, 1, 2), (-1, 0, 1), (2, 2, 2), ((1 << 31) - 1,), (-5,))
LINE_MAX = 4_000
TPS = [TopicPartition("t", number) for number in range(3)]
QUICK = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 100, "metadata_max_age_ms": 500, "request_timeout_ms": 2_000}


@pytest.mark.anyio
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
@pytest.mark.parametrize("port", PORTS)
async def test_a_port_that_does_not_exist_cannot_be_reached(host: str, port: int) -> None:
    with pytest.raises(OSError, match="no port has that number"):
        await open_stream(host, port, Connection(host, port, "test"), None)


@pytest.mark.anyio
@pytest.mark.parametrize("host", HOSTS, ids=lambda host: ascii(host[-10:]))
async def test_a_host_that_is_no_name_cannot_be_reached(host: str) -> None:
    with pytest.raises(OSError, match=r"no host has that name|\[Errno -\d+\]"):
        await open_stream(host, 9092, Connection(host, 9092, "test"), None)


def addresses(brokers: Any, *, host: str | None = None, port: int | None = None) -> None:
    for one in brokers:
        one.host = one.host if host is None else host
        one.port = one.port if port is None else port


def number(response: Any, *indexes: int) -> None:
    """Answer partitions with these indexes."""
    for topic in response.topics:
        topic.partitions = [MetadataResponsePartition(partition_index=one, leader_id=1) for one in indexes]


def lead(response: Any, node_id: int) -> None:
    for topic in response.topics:
        for one in topic.partitions:
            one.leader_id = node_id


def brokers(response: Any, *node_ids: int) -> None:
    response.brokers = [MetadataResponseBroker(node_id=one, host="a", port=1) for one in node_ids]


def coordinator(response: Any, **changes: Any) -> None:
    for one in (response, *response.coordinators):
        for name, value in changes.items():
            if hasattr(one, name):
                setattr(one, name, value)


def versions(response: Any, *ranges: tuple[int, int]) -> None:
    response.api_keys = [
        ApiVersion(api_key=one.api_key, min_version=low, max_version=high)
        for one in response.api_keys
        for low, high in ranges
    ]


def unknown_apis(response: Any) -> None:
    response.api_keys += [ApiVersion(api_key=key, min_version=-5, max_version=-9) for key in (-1, 999, 32767)]


PLACES = {f"port {port}": {"port": port} for port in PORTS} | {
    f"host {host[-4:]!a}": {"host": host} for host in HOSTS if host
}
Change = Callable[[Any], None]
ODD: dict[str, tuple[Any, Change]] = {
    **{
        f"Metadata, {name}": (MetadataRequest, lambda response, place=place: addresses(response.brokers, **place))
        for name, place in PLACES.items()
    },
    **{
        f"Metadata, partitions {indexes}": (MetadataRequest, lambda response, some=indexes: number(response, *some))
        for indexes in (*PARTITIONS, ())
    },
    **{
        f"Metadata, leader {node_id}": (MetadataRequest, partial(lead, node_id=node_id))
        for node_id in (-1, -7, 0, 99, (1 << 31) - 1)
    },
    **{
        f"Metadata, brokers {node_ids}": (MetadataRequest, lambda response, some=node_ids: brokers(response, *some))
        for node_ids in ((), (1, 1), (-1,), (-1, -1), (2,), (1, 1 << 30))
    },
    **{
        f"FindCoordinator, {name}": (FindCoordinatorRequest, partial(coordinator, node_id=99, **place))
        for name, place in PLACES.items()
    },
    **{
        f"FindCoordinator, node {node_id}": (FindCoordinatorRequest, partial(coordinator, node_id=node_id))
        for node_id in (-1, -7, 0, 99, (1 << 31) - 1)
    },
    "FindCoordinator, none": (FindCoordinatorRequest, lambda response: setattr(response, "coordinators", [])),
    "FindCoordinator, of another key": (FindCoordinatorRequest, partial(coordinator, key="other", node_id=3)),
    **{
        f"DescribeCluster, {name}": (
            DescribeClusterRequest,
            lambda response, place=place: addresses(response.brokers, **place),
        )
        for name, place in PLACES.items()
    },
    "DescribeCluster, a node twice": (
        DescribeClusterRequest,
        lambda response: setattr(response, "brokers", response.brokers * 2),
    ),
    "DescribeCluster, node -1": (DescribeClusterRequest, lambda response: setattr(response, "controller_id", -1)),
    **{
        f"ApiVersions, {ranges}": (ApiVersionsRequest, lambda response, some=ranges: versions(response, *some))
        for ranges in ((), ((5, 2),), ((-3, -1),), ((0, 32767),), ((-32768, 32767),), ((0, 32767), (0, 32767)))
    },
    "ApiVersions, unknown APIs": (ApiVersionsRequest, unknown_apis),
}  # fmt: skip


class OddCluster(ScriptedCluster):
    """A cluster that answers what `odd` says; addresses that it does not have are looked for on the real network.

    Attributes:
        odd: a request, and how the response to it is changed.
    """

    def __init__(self) -> None:
        super().__init__(t=3)
        self.odd: tuple[Any, Change] | None = None
        handlers = self.brokers[0].handlers
        handlers |= {ProduceRequest: self._produce, DescribeClusterRequest: self._describe}
        for kind, handler in list(handlers.items()):
            handlers[kind] = partial(self._answer, kind, handler)

    async def open_stream(self, host: str, port: int, receiver: Receiver, task_group: Any) -> Any:
        if (host, port) == ("a", 1):
            return await super().open_stream(host, port, receiver, task_group)
        return await open_stream(host, port, receiver, task_group)

    def _answer(self, kind: Any, handler: Any, request: Any, version: int) -> Any:
        response = handler(request, version)
        if self.odd is not None and self.odd[0] is kind:
            response = deepcopy(response)
            self.odd[1](response)
        return response

    def _produce(self, request: Any, version: int) -> ProduceResponse:
        return ProduceResponse(responses=[
            TopicProduceResponse(topic_id=topic.topic_id, partition_responses=[
                PartitionProduceResponse(index=one.index, base_offset=7) for one in topic.partition_data
            ])
            for topic in request.topic_data
        ])  # fmt: skip

    def _describe(self, request: Any, version: int) -> DescribeClusterResponse:
        return DescribeClusterResponse(
            cluster_id="fake", controller_id=1, brokers=[DescribeClusterBroker(broker_id=1, host="a", port=1)]
        )


async def until_done(call: Callable[[], Awaitable[Any]], done: list[Any], errors: list[KafkaError]) -> None:
    """Call until it succeeds; only Kafka's errors may be raised."""
    while True:
        try:
            done.append(await call())
            return
        except KafkaError as error:
            errors.append(error)
            await trio.sleep(1)


async def until_polled(consumer: Consumer, tp: TopicPartition) -> None:
    while not any(one.partition == tp.partition for one in await consumer.poll(1_000)):
        pass


@pytest.mark.parametrize("indexes", PARTITIONS)
def test_partitions_that_are_not_numbered_from_0_on_are_an_error_that_may_pass(indexes: tuple[int, ...]) -> None:
    metadata = Metadata()
    response = MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=b"t" * 16)])
    number(response, 0, 1, 2)
    metadata.apply(response, None)
    number(response, *indexes)
    metadata.apply(response, None)
    assert metadata.errors["t"].retriable
    assert "partition" in str(metadata.errors["t"])
    assert metadata.leader("t", 1) == -1
    number(response, 2, 0, 1)
    metadata.apply(response, None)
    assert not metadata.errors
    assert [one.index for one in metadata.topics["t"].partitions] == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_clients_outlive_it_and_go_on_after_a_right_answer(name: str, caplog: pytest.LogCaptureFixture) -> None:
    cluster = OddCluster()
    for tp in TPS:
        cluster.append(tp, 2)

    errors: list[KafkaError] = []

    async def main() -> None:
        async with (
            Producer("a:1", seams=cluster.seams(), enable_idempotence=False, linger_ms=0, **QUICK) as producer,
            cluster.consumer(group_id="g", **QUICK) as consumer,
            Admin("a:1", seams=cluster.seams(), **QUICK) as admin,
        ):
            await producer.send_and_wait("t", b"before", partition=2)
            consumer.assign(TPS)
            assert await consumer.poll(1_000)
            cluster.odd = ODD[name]
            await trio.sleep(2)  # They have refreshed their metadata.
            cluster.brokers[0].hang_up()
            done: list[Any] = []
            calls = (
                lambda: producer.send_and_wait("t", b"after", partition=2),
                lambda: producer.send_and_wait("t", b"after"),
                lambda: consumer.commit(dict.fromkeys(TPS, 1)),
                lambda: consumer.end_offsets(TPS),
                admin.describe_cluster,
                lambda: admin.describe_topics(["t"]),
                lambda: admin.list_group_offsets("g", TPS),
            )
            async with trio.open_nursery() as nursery:
                for call in calls:
                    nursery.start_soon(until_done, call, done, errors)
                await trio.sleep(15)
                if len(done) < len(calls):
                    assert errors or any("still waiting" in one.getMessage() for one in caplog.records)
                cluster.odd = None
                cluster.brokers[0].hang_up()
                with trio.fail_after(60):
                    while len(done) < len(calls):
                        await trio.sleep(0.1)
            cluster.append(TPS[2])
            with trio.fail_after(60):
                await until_done(partial(until_polled, consumer, TPS[2]), done, errors)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert all(one.retriable for one in errors) or "ApiVersions" in name
    assert all(len(one.getMessage()) < LINE_MAX for one in caplog.records)


@pytest.mark.parametrize("offset", [-1, -2, -5, -(1 << 63)])
def test_an_offset_that_cannot_be_is_asked_for_again(offset: int) -> None:
    cluster = OddCluster()
    for tp in TPS:
        cluster.append(tp, 2)

    def change(response: Any) -> None:
        for topic in response.topics:
            for one in topic.partitions:
                one.offset = offset

    async def main() -> dict[TopicPartition, int]:
        cluster.odd = (ListOffsetsRequest, change)
        async with cluster.consumer(**QUICK) as consumer, trio.open_nursery() as nursery:
            nursery.start_soon(relent)
            return await consumer.end_offsets(TPS)

    async def relent() -> None:
        await trio.sleep(15)
        cluster.odd = None

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == dict.fromkeys(TPS, 2)


@pytest.mark.parametrize("name", [None, ""])
def test_a_topic_without_a_name_is_not_listed(name: str | None) -> None:
    """Kafka's field is nullable, since a client may ask for topics by id."""
    cluster = OddCluster()
    cluster.append(TPS[0])

    def change(response: Any) -> None:
        response.topics += [MetadataResponseTopic(name=name, topic_id=bytes([1] * 16))]

    async def main() -> list[str]:
        cluster.odd = (MetadataRequest, change)
        async with Admin("a:1", seams=cluster.seams(), **QUICK) as admin:
            return await admin.list_topics()

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == ["t"]
