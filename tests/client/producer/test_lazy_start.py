"""`Producer(start="lazy")`: the block is entered without a broker, which may come later, or never."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import anyio
import pytest
from support.fake_network import FakeNetwork

from minikafka.client import KafkaError, Producer, blocking
from minikafka.client.connections import waits
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from minikafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from minikafka.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

KINDS: dict[str, dict[str, Any]] = {
    "idempotent": {},
    "transactional": {"transactional_id": "x"},
    "no idempotence": {"enable_idempotence": False},
}
FLAVOURS = ["asyncio", "trio", "blocking"]
SHORT = {"max_block_ms": 1500, "delivery_timeout_ms": 1600, "request_timeout_ms": 1500, "linger_ms": 0}
END_TIMEOUT_S = 20
RECORDS = 20


def network_without_broker() -> FakeNetwork:
    network = FakeNetwork({"t": [1]})
    found = Coordinator(node_id=1, host="a", port=1, error_message=None)

    def produced(request: ProduceRequest, version: int) -> ProduceResponse:
        topic = request.topic_data[0]
        done = [PartitionProduceResponse(index=one.index, base_offset=0) for one in topic.partition_data]
        answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=done)
        return ProduceResponse(responses=[answer])

    def added(request: AddPartitionsToTxnRequest, version: int) -> AddPartitionsToTxnResponse:
        done = [AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=0)]
        topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=done)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])

    network.broker(
        "a",
        1,
        {
            AddPartitionsToTxnRequest: added,
            EndTxnRequest: lambda request, version: EndTxnResponse(),
            InitProducerIdRequest: lambda request, version: InitProducerIdResponse(producer_id=5),
            FindCoordinatorRequest: lambda request, version: FindCoordinatorResponse(coordinators=[found]),
            ProduceRequest: produced,
        },
    )
    network.brokers[0].alive = False
    return network


async def wait_until(is_so: Callable[[], Any]) -> None:
    with anyio.fail_after(END_TIMEOUT_S):
        while not is_so():
            await anyio.sleep(0.01)


def run(flavour: str, main: Callable[[], Any], main_blocking: Callable[[], Any]) -> Any:
    return main_blocking() if flavour == "blocking" else anyio.run(main, backend=flavour)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("kind", KINDS)
def test_records_are_delivered_once_the_broker_comes(kind: str, flavour: str) -> None:
    network = network_without_broker()
    options = {"seams": network.seams(), "start": "lazy", "linger_ms": 0, **KINDS[kind]}
    opened: list[int] = []

    def come() -> None:
        opened.append(len(network.brokers[0].requests))
        network.brokers[0].alive = True

    async def come_later() -> None:
        await anyio.sleep(0.1)
        come()

    async def main() -> bool:
        async with Producer("a:1", **options) as producer, anyio.create_task_group() as tasks:

            async def send() -> None:
                if kind == "transactional":
                    async with producer.transaction():
                        delivery = await producer.send("t", b"1")
                else:
                    delivery = await producer.send("t", b"1")
                assert (await delivery).offset == 0

            tasks.start_soon(send)
            await anyio.sleep(0.1)
            come()
        return True

    def main_blocking() -> bool:
        with blocking.Producer("a:1", **options) as producer:
            producer._open_thread().start(come_later)
            with producer.transaction() if kind == "transactional" else nullcontext():
                delivery = producer.send("t", b"1")
            assert delivery.result(END_TIMEOUT_S * 1000).offset == 0
        return True

    assert run(flavour, main, main_blocking)
    assert opened == [0]


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_producer_id_comes_in_the_background(kind: str, flavour: str) -> None:
    """An idle producer is ready once the broker is there."""
    network = network_without_broker()
    options = {"seams": network.seams(), "start": "lazy", **KINDS[kind]}

    async def main() -> None:
        async with Producer("a:1", **options) as producer:
            network.brokers[0].alive = True
            await wait_until(lambda: producer.cluster.metadata.brokers)
            await wait_until(lambda: kind == "no idempotence" or producer._accumulator.identity)

    def main_blocking() -> None:
        with blocking.Producer("a:1", **options) as producer:
            network.brokers[0].alive = True
            producer._wait(wait_until, lambda: producer._producer.cluster.metadata.brokers)
            producer._wait(wait_until, lambda: kind == "no idempotence" or producer._producer._accumulator.identity)

    run(flavour, main, main_blocking)


@pytest.mark.slow
@pytest.mark.parametrize("queued", [0, RECORDS])
@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_block_ends_though_no_broker_comes(
    kind: str, flavour: str, queued: int, caplog: pytest.LogCaptureFixture
) -> None:
    """At once if nothing is queued; else after one time-out, not after one for each record."""
    options: dict[str, Any] = {"seams": network_without_broker().seams(), "start": "lazy", **SHORT, **KINDS[kind]}
    failed: list[str] = []
    if not queued:
        options |= {"max_block_ms": 3_600_000, "delivery_timeout_ms": 3_600_000}

    async def main() -> None:
        with anyio.fail_after(END_TIMEOUT_S):
            async with Producer("a:1", **options) as producer, anyio.create_task_group() as tasks:

                async def send() -> None:
                    try:
                        if kind == "transactional":
                            await producer.begin()
                        await (await producer.send("t", b"1"))
                    except KafkaError as error:
                        failed.append(str(error))

                for _ in range(queued):
                    tasks.start_soon(send)

    def main_blocking() -> None:
        with blocking.Producer("a:1", **options) as producer:
            if kind == "transactional" and queued:
                with pytest.raises(KafkaError) as refused:
                    producer.begin()
                failed.extend([str(refused.value)] * queued)
                return
            deliveries = [producer.send("t", b"1") for _ in range(queued)]
        for one in deliveries:
            with pytest.raises(KafkaError) as error:
                one.result(0)
            failed.append(str(error.value))

    run(flavour, main, main_blocking)
    assert len(failed) == queued
    assert all("a:1" in one for one in failed)
    waited = [one for one in caplog.messages if "not sent" in one]
    assert len(waited) <= 2, "the first record, and those behind it with the first"


def test_records_behind_one_that_waited_in_vain_do_not_wait_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocking producer passes records on one after the other: those behind have waited as long as the first."""
    passed_on: list[str] = []
    send = Producer.send

    async def counted(producer: Producer, topic: str, *arguments: Any, **options: Any) -> Any:
        passed_on.append(topic)
        return await send(producer, topic, *arguments, **options)

    monkeypatch.setattr(Producer, "send", counted)
    with suppress(KafkaError), blocking.Producer("127.0.0.1:1", start="lazy", **SHORT) as producer:
        deliveries = [producer.send("t", b"value") for _ in range(3)]
        for delivery in deliveries:
            with pytest.raises(KafkaError):
                delivery.result()
    assert passed_on == ["t"]


@pytest.mark.parametrize("kind", KINDS)
def test_waiting_for_the_broker_is_said(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waits, "PATIENCE_S", 0.6)
    network = network_without_broker()

    def said() -> bool:
        return any("connecting" in one and "a:1" in one for one in caplog.messages)

    async def main() -> None:
        async with Producer("a:1", seams=network.seams(), start="lazy", **KINDS[kind]):
            await wait_until(said)

    with caplog.at_level(logging.WARNING, "minikafka.client"):
        anyio.run(main)


@pytest.mark.parametrize("code", [31, 42])
def test_a_producer_id_that_is_refused_is_not_asked_for_without_end(code: int) -> None:
    network = network_without_broker()
    broker = network.brokers[0]
    broker.alive = True
    broker.handlers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(error_code=code)

    async def main() -> None:
        async with Producer("a:1", seams=network.seams(), start="lazy") as producer:
            await wait_until(lambda: any(isinstance(one, InitProducerIdRequest) for one in broker.requests))
            for _ in range(5):
                with suppress(KafkaError):
                    await producer.send_and_wait("t", b"1")

    anyio.run(main)
    assert sum(isinstance(one, InitProducerIdRequest) for one in broker.requests) <= 12
