"""What a blocking producer does not send is told once: by the error of its delivery, or in one line with the sum."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from support.fake_network import FakeNetwork

from minikafka.client import Producer, ProducerInterceptor, RecordMetadata, blocking
from minikafka.client.blocking import BlockingDelivery
from minikafka.protocol.errors import MessageTooLargeError, NetworkError
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import ProduceRequest


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    """What is logged is logged as soon as the deliveries are gone, not when garbage is collected."""
    gc.disable()
    yield
    gc.enable()


def silent() -> FakeNetwork:
    """A broker that answers no Produce, and no question for the topic "slow"."""
    network = FakeNetwork({"t": [1]})
    network.broker("a", 1, {ProduceRequest: lambda request, version: None})
    handlers = network.brokers[0].handlers

    def metadata(request: Any, version: int) -> Any:
        asks = any(one.name == "slow" for one in request.topics or ())
        return None if asks else network.metadata(request, version)

    handlers[MetadataRequest] = metadata
    return network


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit], ids=lambda one: one.__name__)
@pytest.mark.parametrize("topic", ["t", "slow"])
@pytest.mark.parametrize("count", [1, 255, 256, 257, 5_000])
@pytest.mark.parametrize("memory", [1 << 25, 40_000], ids=["roomy", "full"])
def test_a_block_that_is_left_says_once_how_many_records_are_lost(
    error: type[BaseException], topic: str, count: int, memory: int, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"buffer_memory": memory, "batch_size": 1_000, "enable_idempotence": False}
    deliveries: list[BlockingDelivery] = []

    def program() -> None:
        with blocking.Producer("a:1", seams=silent().seams(), **options) as producer:
            deliveries.extend(producer.send(topic, b"%d" % number) for number in range(count))
            raise error

    with pytest.raises(error):
        program()
    assert all(one.done for one in deliveries)
    for one in deliveries:
        with pytest.raises(NetworkError, match="the producer was closed before the record was delivered"):
            one.result()
    deliveries.clear()
    (line,) = lines(caplog)
    assert f"undelivered records: {count}: left by {error.__name__}; flush() delivers them before" in line


@pytest.mark.parametrize("looked_at", [True, False])
def test_a_record_that_is_refused_is_logged_unless_somebody_looks(
    looked_at: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with blocking.Producer("a:1", seams=silent().seams(), enable_idempotence=False) as producer:
        for arguments, error in (({"value": b"x" * 3_000_000}, MessageTooLargeError), ({"partition": 99}, ValueError)):
            delivery = producer.send("t", **arguments)
            if looked_at:
                with pytest.raises(error):
                    delivery.result()
            del delivery
    expected = [
        "records for topic 't' not sent: 1: a record of",
        "records for topic 't' not sent: 1: topic 't' has no partition 99",
    ]
    if looked_at:
        gc.collect()  # An error that was raised knows the delivery.
    found = lines(caplog)
    assert len(found) == (0 if looked_at else 2)
    assert all(one.startswith(start) for one, start in zip(found, expected, strict=False))


def test_many_that_are_refused_for_the_same_reason_are_counted_together(caplog: pytest.LogCaptureFixture) -> None:
    count = 3_000
    with blocking.Producer("a:1", seams=silent().seams(), enable_idempotence=False) as producer:
        for _ in range(count):
            producer.send("t", b"x", partition=99)
        producer.flush()
    sums = [int(one.split(": ")[1]) for one in lines(caplog)]
    assert sum(sums) == count
    assert len(sums) < count / 50


def test_the_error_does_not_grow_with_each_look() -> None:
    with blocking.Producer("a:1", seams=silent().seams(), enable_idempotence=False) as producer:
        delivery = producer.send("t", b"x", partition=99)
        lengths = set()
        for _ in range(5):
            with pytest.raises(ValueError, match="no partition 99") as raised:
                delivery.result()
            lengths.add(len(raised.traceback))
        assert len(lengths) == 1


class SendsAgain(ProducerInterceptor):
    """Sends each record that has failed again, as long as the test has not given up."""

    def __init__(self) -> None:
        self.producer: blocking.Producer | None = None
        self.deliveries: list[BlockingDelivery] = []
        self.tries_left = 50_000

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        if error is not None and self.producer is not None and self.tries_left:
            self.tries_left -= 1
            self.deliveries.append(self.producer.send("slow", b"again"))


def test_dropping_records_ends_though_each_is_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    again, count = SendsAgain(), 100
    options: dict[str, Any] = {"interceptors": [again], "enable_idempotence": False}

    def program() -> None:
        with blocking.Producer("a:1", seams=silent().seams(), **options) as producer:
            again.producer = producer
            for number in range(count):
                producer.send("slow", b"%d" % number)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        program()
    assert again.tries_left
    for delivery in again.deliveries:
        with pytest.raises((NetworkError, RuntimeError), match="closed"):
            delivery.result()
    assert f"undelivered records: {count}: left by ValueError" in "".join(lines(caplog))


@pytest.mark.anyio
@pytest.mark.parametrize("waits_for", ["topic", "memory"])
async def test_a_send_that_waits_while_the_producer_is_closed_says_so(waits_for: str) -> None:
    options: dict[str, Any] = {"buffer_memory": 20_000, "batch_size": 10_000, "enable_idempotence": False}
    said: list[str] = []

    async def send(producer: Producer) -> None:
        with pytest.raises(RuntimeError) as raised:
            await producer.send("slow" if waits_for == "topic" else "t", b"x")
        said.append(str(raised.value))

    async def program(tasks: TaskGroup) -> None:
        async with Producer("a:1", seams=silent().seams(), **options) as producer:
            for _ in range(3):
                await producer.send("t", b"x" * 9_000)
            tasks.start_soon(send, producer)
            for _ in range(50):
                await checkpoint()
            raise ValueError("mine")

    async with anyio.create_task_group() as tasks:
        with pytest.raises(ValueError, match="mine"):
            await program(tasks)
    assert said == ["this Producer is closed"]
