"""A record for which `buffer_memory` can never be enough is refused at once, and one that just fits is delivered."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork
from trio.testing import MockClock

from minikafka.client import Producer, blocking
from minikafka.client.options import InvalidOption
from minikafka.protocol.errors import MessageTooLargeError
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

OVERHEAD = 21
"""Of a record, as `DefaultRecord.MAX_RECORD_OVERHEAD`."""
MEMORIES = (OVERHEAD, OVERHEAD + 1, 100, 5_000, 1 << 20)


def network() -> FakeNetwork:
    made = FakeNetwork({"t": [1]})
    written = [PartitionProduceResponse(index=0)]
    topics = [TopicProduceResponse(name="t", topic_id=b"t".ljust(16, b"-"), partition_responses=written)]
    made.broker("a", 1, {ProduceRequest: lambda request, version: ProduceResponse(responses=topics)})
    return made


def options(memory: int) -> dict[str, Any]:
    return {
        "seams": network().seams(), "buffer_memory": memory, "max_request_size": 1 << 21, "enable_idempotence": False
    }  # fmt: skip


def shapes(size: int) -> dict[str, dict[str, Any]]:
    """Records with so many bytes of content."""
    shapes: dict[str, dict[str, Any]] = {"value": {"value": bytes(size)}, "key": {"key": bytes(size)}}
    if size > 14:
        shapes["header"] = {"headers": {"h": bytes(size - 14)}}
    return shapes


def says(memory: int) -> str:
    return rf"a record of {memory + 1:_} bytes for topic 't': buffer_memory is {memory}".replace("_", "[_,]?")


@pytest.mark.parametrize("memory", MEMORIES)
def test_it_is_refused_without_waiting(memory: int) -> None:
    async def main() -> None:
        async with Producer("a:1", **options(memory)) as producer:
            await producer.partitions_for("t")
            began = trio.current_time()
            for record in shapes(memory - OVERHEAD + 1).values():
                with pytest.raises(MessageTooLargeError, match=says(memory)):
                    await producer.send("t", **record)
            with pytest.raises(MessageTooLargeError, match=says(memory)):
                await producer.send_many("t", [bytes(memory - OVERHEAD + 1)])
            assert trio.current_time() == began
            for record in shapes(memory - OVERHEAD).values():
                await producer.send_and_wait("t", **record)

    trio.run(main, clock=MockClock(autojump_threshold=0.02))


@pytest.mark.parametrize("memory", MEMORIES)
def test_its_delivery_in_blocking_code_is_refused(memory: int) -> None:
    with blocking.Producer("a:1", **options(memory)) as producer:
        for record in shapes(memory - OVERHEAD + 1).values():
            with pytest.raises(MessageTooLargeError, match=says(memory)):
                producer.send("t", **record).result(30_000)
        for record in shapes(memory - OVERHEAD).values():
            producer.send("t", **record).result(30_000)


@pytest.mark.parametrize("kind", [Producer, blocking.Producer])
@pytest.mark.parametrize("memory", [0, 1, OVERHEAD - 1])
def test_a_memory_for_no_record_is_no_option(kind: Any, memory: int) -> None:
    with pytest.raises(InvalidOption, match=rf"buffer_memory={memory}.*a whole number from {OVERHEAD} to"):
        kind("a:1", buffer_memory=memory)


def test_the_smaller_of_two_bounds_is_named() -> None:
    async def main() -> None:
        async with Producer("a:1", **options(5_000) | {"max_request_size": 1_000}) as producer:
            with pytest.raises(MessageTooLargeError, match="max_request_size is 1000"):
                await producer.send("t", bytes(1_000))

    trio.run(main, clock=MockClock(autojump_threshold=0.02))
