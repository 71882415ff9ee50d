"""Topics that a producer does not use any more: brokers are not asked to create them, and then not asked for them."""

from __future__ import annotations

from typing import Any

import trio
from support.fake_network import FakeNetwork
from trio.testing import MockClock

from minikafka.client import Producer
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)


class CreatingNetwork(FakeNetwork):
    """A broker that creates each topic that it may.

    Attributes:
        requested: the topics of each Metadata request.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requested: list[list[str]] = []
        self.broker("a", 1, {ProduceRequest: self._produce})

    def metadata(self, request: MetadataRequest, version: int) -> Any:
        names = [one.name or "" for one in request.topics or ()]
        self.requested.append(names)
        if request.allow_auto_topic_creation:
            self.topics |= {name: [1] for name in names if name not in self.topics}
        return super().metadata(request, version)

    def _produce(self, request: ProduceRequest, version: int) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[PartitionProduceResponse(index=one.index) for one in topic.partition_data],
                )
                for topic in request.topic_data
            ]
        )


def producer_of(network: FakeNetwork) -> Producer:
    return Producer(
        "a:1", seams=network.seams(), linger_ms=0, enable_idempotence=False, metadata_max_age_ms=10_000,
        metadata_max_idle_ms=60_000,
    )  # fmt: skip


def test_a_deleted_topic_comes_back_only_when_it_is_used() -> None:
    network = CreatingNetwork()

    async def main() -> None:
        async with producer_of(network) as producer:
            await producer.send_and_wait("gone", b"")
            for number in range(4):
                network.topics.pop("gone", None)
                await producer.send_and_wait(f"new-{number}", b"")
                await trio.sleep(15)
                assert "gone" not in network.topics
            await producer.send_and_wait("gone", b"")
            assert "gone" in network.topics

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_topics_that_are_not_used_for_long_are_forgotten() -> None:
    network = CreatingNetwork()

    async def main() -> None:
        async with producer_of(network) as producer:
            for number in range(50):
                await producer.send_and_wait(f"job-{number}", b"")
                await producer.send_and_wait("steady", b"")
                await trio.sleep(15)
            assert "steady" in network.requested[-1]
            assert max(map(len, network.requested)) < 10
            assert len(producer.cluster.metadata.topics) < 10
            assert await producer.send_and_wait("job-0", b""), "it is found again"

    trio.run(main, clock=MockClock(autojump_threshold=0))
