"""A broker that reads nothing: `buffer_memory` limits the records that wait for the socket, with every `acks`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from support.fake_network import FakeBroker, FakeNetwork, FakeStream
from trio.testing import MockClock

from minikafka.client import Delivery, KafkaError, Producer
from minikafka.client.connections.stream import Receiver
from minikafka.protocol.errors import RequestTimedOutError
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

MEMORY = 100_000
VALUE = bytes(1000)
BATCH_SIZE = 5_000
DELIVERY_TIMEOUT_S = 10
OPTIONS: dict[str, Any] = {
    "buffer_memory": MEMORY,
    "batch_size": BATCH_SIZE,
    "linger_ms": 0,
    "max_block_ms": 3000,
    "enable_idempotence": False,
    "request_timeout_ms": 5000,
    "delivery_timeout_ms": DELIVERY_TIMEOUT_S * 1000,
}


class FillingStream(FakeStream):
    """A stream that keeps what is written while the network is stuck.

    Attributes:
        kept: What the socket has not accepted.
    """

    def __init__(self, receiver: Receiver, broker: FakeBroker) -> None:
        super().__init__(receiver, broker)
        self.kept: list[bytes] = []

    def write(self, data: bytes) -> None:
        if self.is_full:
            self.kept.append(data)
        else:
            super().write(data)

    def accept(self, count: int) -> None:
        """Accept as many requests, in their order, as a socket whose peer reads again."""
        while self.kept and count:
            super().write(self.kept.pop(0))
            count -= 1
        if not self.kept:
            self.is_full = False
            self.receiver.on_sent()


class StuckNetwork(FakeNetwork):
    """One broker, which can stop to read.

    Attributes:
        stays_stuck: Whether it does not read from new connections either.
        appended: The number of bytes of records that the broker has got.
        kept_max: The most bytes that all connections have kept at a time.
    """

    def __init__(self) -> None:
        super().__init__({"t": [1]})
        self.appended = self.kept_max = 0
        self.stays_stuck = False
        self.streams: list[FillingStream] = []
        self.broker("a", 1, {ProduceRequest: self._append})

    def _append(self, request: Any, version: int) -> Any:
        self.appended += sum(len(one.records) for topic in request.topic_data for one in topic.partition_data)
        written = [PartitionProduceResponse(index=0)]
        topics = [TopicProduceResponse(name="t", topic_id=b"t".ljust(16, b"-"), partition_responses=written)]
        return ProduceResponse(responses=topics) if request.acks else None

    async def open_stream(self, host: str, port: int, receiver: Receiver, task_group: Any) -> FakeStream:
        await super().open_stream(host, port, receiver, task_group)
        stream = FillingStream(receiver, self.brokers[0])
        stream.is_full = self.stays_stuck
        self.brokers[0].streams[-1] = stream
        self.streams.append(stream)
        return stream

    def stick(self) -> None:
        """Stop reading, on the connections there are."""
        for stream in self.streams:
            stream.is_full = True

    @property
    def kept(self) -> int:
        """The number of bytes that wait for the sockets of open connections."""
        return sum(len(data) for stream in self.streams if stream.open for data in stream.kept)


def over(network: StuckNetwork, scenario: Callable[[StuckNetwork, Producer], Awaitable[None]], acks: Any) -> None:
    """Run a scenario with a producer, on a virtual clock; it knows its leader and has a connection."""

    async def main() -> None:
        async with Producer("a:1", seams=network.seams(), acks=acks, **OPTIONS) as producer:
            await (await producer.send("t", b"first"))
            await scenario(network, producer)

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def fill(producer: Producer, sent: list[Delivery]) -> None:
    """Send far beyond `buffer_memory`."""
    for _ in range(10 * MEMORY // len(VALUE)):
        sent.append(await producer.send("t", VALUE))


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_send_waits_while_the_broker_reads_nothing(acks: Any) -> None:
    async def scenario(network: StuckNetwork, producer: Producer) -> None:
        network.stick()
        began = trio.current_time()
        sent: list[Delivery] = []
        with pytest.raises(KafkaError, match="buffer_memory of 100,000 bytes is full"):
            await fill(producer, sent)
        assert 3 <= trio.current_time() - began < 5
        assert MEMORY - BATCH_SIZE < len(sent) * len(VALUE) <= MEMORY
        assert 0 < network.kept <= MEMORY
        assert not any(one.done for one in sent)
        network.streams[-1].accept(1000)
        await producer.flush()
        assert all(one.result() for one in sent)
        assert network.appended > len(sent) * len(VALUE)

    over(StuckNetwork(), scenario, acks)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_that_wait_for_the_socket_for_too_long_fail_or_are_sent_on_another_connection(acks: Any) -> None:
    async def scenario(network: StuckNetwork, producer: Producer) -> None:
        network.stick()
        first = await producer.send("t", VALUE)
        await first.wait()
        assert first.result(), "sent again on another connection, after request_timeout_ms"
        assert not network.streams[1].open, "streams[0] is for metadata"
        network.stays_stuck = True
        network.stick()
        began = trio.current_time()
        second = await producer.send("t", VALUE)
        await second.wait()
        assert trio.current_time() - began == pytest.approx(DELIVERY_TIMEOUT_S, abs=0.1)
        with pytest.raises(RequestTimedOutError, match="1 record for t-0 not delivered"):
            second.result()

    over(StuckNetwork(), scenario, acks)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_a_broker_that_reads_slowly_gets_all_and_little_waits(acks: Any) -> None:
    async def scenario(network: StuckNetwork, producer: Producer) -> None:
        async def read_slowly() -> None:
            while True:
                network.stick()
                await trio.sleep(0.1)
                network.kept_max = max(network.kept_max, network.kept)
                network.streams[-1].accept(3)

        network.stick()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_slowly)
            sent = [await producer.send("t", VALUE) for _ in range(500)]
            await producer.flush()
            nursery.cancel_scope.cancel()
        assert all(one.result() for one in sent)
        assert network.appended > len(sent) * len(VALUE)
        assert 0 < network.kept_max <= MEMORY

    over(StuckNetwork(), scenario, acks)
