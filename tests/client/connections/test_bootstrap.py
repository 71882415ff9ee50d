"""Re-bootstrapping: a client that lost its brokers begins with the bootstrap addresses again (KIP-899, KIP-1102)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio
from support.fake_network import FakeNetwork
from support.node import NodeProcess
from support.oracle import Oracle, needs_oracle
from trio.testing import MockClock

from minikafka.client import Admin, Consumer, Producer, TopicPartition
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.options import AdminOptions, make
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import BrokerNotAvailableError, NetworkError
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker

SEED, KNOWN = 1, 2


class Brokers:
    """A broker at the bootstrap address, and the one that its metadata name.

    Attributes:
        named: the node ids in the metadata of the broker at the bootstrap address.
        answers: by node id: the answer of other metadata requests, in place of metadata; None: no answer.
    """

    def __init__(self) -> None:
        self.network = FakeNetwork()
        self.named = [KNOWN]
        self.answers: dict[int, MetadataResponse | None] = {}
        self.seed, self.known = [
            self.network.broker(host, 1, {MetadataRequest: lambda request, version, me=me: self.metadata(me)})
            for me, host in ((SEED, "seed"), (KNOWN, "known"))
        ]

    def metadata(self, me: int) -> MetadataResponse | None:
        if me in self.answers:
            return self.answers[me]
        some = [MetadataResponseBroker(node_id=n, host=("seed", "known")[n - 1], port=1) for n in self.named]
        return MetadataResponse(cluster_id="fake", controller_id=1, brokers=some)

    def client(self, **options: Any) -> ClusterClient:
        made = make(AdminOptions, {"bootstrap_servers": "seed:1", **options}, "Admin")
        return ClusterClient(made, self.network.seams())

    def leave_the_seed(self) -> None:
        self.seed.hang_up()
        self.seed.requests.clear()
        self.named = [SEED]


async def refresh(client: ClusterClient, timeout_ms: float = 10_000) -> list[int]:
    """The node ids of new metadata."""
    await client.cluster.retry(client.cluster.refresh, "refreshing", timeout_ms=timeout_ms)
    return list(client.cluster.metadata.brokers)


def run(story: Callable[[Brokers], Awaitable[None]]) -> None:
    trio.run(story, Brokers(), clock=MockClock(autojump_threshold=0))


def test_the_bootstrap_addresses_are_tried_when_all_known_brokers_are_gone() -> None:
    async def story(brokers: Brokers) -> None:
        async with brokers.client() as client:
            assert list(client.cluster.metadata.brokers) == [KNOWN]
            brokers.leave_the_seed()
            brokers.known.die()
            assert await refresh(client) == [SEED]

    run(story)


def test_without_recovery_they_are_not() -> None:
    async def story(brokers: Brokers) -> None:
        async with brokers.client(metadata_recovery_strategy="none") as client:
            brokers.leave_the_seed()
            brokers.known.die()
            with pytest.raises(NetworkError, match="known:1"):
                await refresh(client)
            assert brokers.seed.requests == []

    run(story)


def test_a_broker_that_requires_it_is_left_at_once() -> None:
    async def story(brokers: Brokers) -> None:
        brokers.answers[KNOWN] = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        async with brokers.client() as client:
            brokers.leave_the_seed()
            connection = await client.cluster.connection(KNOWN)
            began = trio.current_time()
            assert await refresh(client) == [SEED]
            assert trio.current_time() - began < 1
            assert "begins with the bootstrap servers again" in connection.closed
            with pytest.raises(BrokerNotAvailableError):
                await client.cluster.connection(KNOWN)

    run(story)


def test_without_recovery_it_is_asked_again() -> None:
    async def story(brokers: Brokers) -> None:
        brokers.answers[KNOWN] = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        async with brokers.client(metadata_recovery_strategy="none") as client:
            brokers.leave_the_seed()
            with pytest.raises(NetworkError, match="bootstrap again"):
                await refresh(client)
            del brokers.answers[KNOWN]
            assert await refresh(client) == [SEED]

    run(story)


def test_brokers_without_metadata_are_left_after_a_while() -> None:
    """They answer, but know no brokers, as one that starts."""

    async def story(brokers: Brokers) -> None:
        brokers.answers[KNOWN] = MetadataResponse()
        async with brokers.client(metadata_recovery_rebootstrap_trigger_ms=20_000) as client:
            brokers.leave_the_seed()
            began = trio.current_time()
            assert await refresh(client, 60_000) == [SEED]
            assert 20 < trio.current_time() - began < 25

    run(story)


def test_the_time_begins_again_with_each_success() -> None:
    async def story(brokers: Brokers) -> None:
        async with brokers.client(metadata_recovery_rebootstrap_trigger_ms=20_000) as client:
            brokers.seed.hang_up()
            brokers.seed.requests.clear()
            for _ in range(3):
                brokers.answers[KNOWN] = MetadataResponse()
                with pytest.raises(NetworkError):
                    await refresh(client, 15_000)
                del brokers.answers[KNOWN]
                await refresh(client)
            assert brokers.seed.requests == []

    run(story)


def test_a_connection_that_was_being_opened_meanwhile_is_not_used() -> None:
    async def story(brokers: Brokers) -> None:
        seams, gate = brokers.network.seams(), trio.Event()

        async def slowly(host: str, *args: Any) -> Any:
            stream = await brokers.network.open_stream(host, *args)
            if host == "known":
                await gate.wait()
            return stream

        object.__setattr__(seams, "open_stream", slowly)
        client = ClusterClient(make(AdminOptions, {"bootstrap_servers": "seed:1"}, "Admin"), seams)
        async with client, trio.open_nursery() as tasks:
            tasks.start_soon(expect_no_connection, client)
            await trio.testing.wait_all_tasks_blocked()
            brokers.answers[SEED] = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
            with pytest.raises(NetworkError):
                await client.cluster.refresh()
            gate.set()

    run(story)


async def expect_no_connection(client: ClusterClient) -> None:
    with pytest.raises(NetworkError, match="bootstrap servers again"):
        await client.cluster.connection(KNOWN)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("kind", [NodeProcess, pytest.param(Oracle, marks=[pytest.mark.oracle, needs_oracle])])
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_clients_follow_to_a_cluster_that_takes_the_place_of_theirs(kind: Any, tmp_path: Path) -> None:
    """Of two bootstrap addresses the second one is of a new cluster, which the clients find when the first is gone."""
    spare = NodeProcess(tmp_path / "spare")
    with kind(tmp_path / "first") as first, spare:
        both = f"{first.bootstrap},{spare.bootstrap}"
        spare.kill()
        async with Admin(bootstrap_servers=both) as admin, Producer(bootstrap_servers=both) as producer:
            await admin.create_topic("t")
            async with Consumer(bootstrap_servers=both, auto_offset_reset="earliest") as consumer:
                consumer.assign([TopicPartition("t", 0)])
                await producer.send_and_wait("t", b"first")
                await taken(consumer, b"first")
                first.kill()
                spare.restart()
                with anyio.fail_after(60):
                    await admin.create_topic("t")
                    await producer.send_and_wait("t", b"second")
                    await producer.send_and_wait("t", b"third")
                    await taken(consumer, b"third")


async def taken(consumer: Consumer, value: bytes) -> None:
    with anyio.fail_after(60):
        while value not in [one.value for one in await consumer.poll(1000)]:
            pass
