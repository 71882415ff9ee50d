"""Failed deliveries are logged where nobody looks at them, once for each batch, and nowhere else."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import pytest
from support.fake_network import FakeNetwork

from minikafka.client import KafkaError, Producer, ProducerInterceptor, blocking
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import InvalidRecordError
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

pytestmark = pytest.mark.anyio
Deliveries = list[Any]


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    """What is logged is logged as soon as the deliveries are gone, not when garbage is collected."""
    gc.disable()
    yield
    gc.enable()


def refusing(error: ErrorCode = ErrorCode.INVALID_RECORD) -> FakeNetwork:
    """A broker that refuses all records."""
    network = FakeNetwork({"t": [1]})

    def refuse(request: Any, version: int) -> ProduceResponse:
        refused = PartitionProduceResponse(index=0, error_code=error)
        (topic,) = request.topic_data
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=topic.topic_id, partition_responses=[refused])])

    network.broker("a", 1, {ProduceRequest: refuse})
    return network


def without_produce() -> FakeNetwork:
    """A broker that offers no Produce."""
    network = refusing()
    versions = network.api_versions

    def fewer(request: Any, version: int) -> Any:
        response = versions(request, version)
        response.api_keys = [one for one in response.api_keys if one.api_key]
        return response

    network.brokers[0].handlers[ApiVersionsRequest] = fewer
    return network


async def ignored(deliveries: Deliveries) -> None:
    """Nobody looks."""


async def waited_for(deliveries: Deliveries) -> None:
    for one in deliveries:
        await one.wait()


async def awaited(deliveries: Deliveries) -> None:
    for one in deliveries:
        with pytest.raises(KafkaError):
            await one


async def one_awaited(deliveries: Deliveries) -> None:
    await awaited(deliveries[-1:])


async def result(deliveries: Deliveries) -> None:
    for one in deliveries:
        await one.wait()
        with pytest.raises(KafkaError):
            one.result()


async def cancelled(deliveries: Deliveries) -> None:
    with anyio.move_on_after(-1):
        while not deliveries[0].done:
            await deliveries[0]


Look = Callable[[Deliveries], Awaitable[None]]
LOOKS: list[tuple[Look, int]] = [
    (ignored, 1), (waited_for, 1), (cancelled, 1), (awaited, 0), (one_awaited, 0), (result, 0),
]  # fmt: skip


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.getMessage().startswith("delivery failed")]


@pytest.mark.parametrize("first", [True, False], ids=["looked at first", "failed first"])
@pytest.mark.parametrize("network", [refusing, without_produce])
@pytest.mark.parametrize(("look", "logged"), LOOKS, ids=lambda value: getattr(value, "__name__", value))
async def test_it_is_logged_if_nobody_looks(
    look: Look, logged: int, network: Callable[[], FakeNetwork], first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with Producer("a:1", seams=network().seams(), enable_idempotence=False, linger_ms=60_000) as producer:
        deliveries = [await producer.send("t", b"%d" % number) for number in range(3)]
        async with anyio.create_task_group() as tasks:
            if first:
                tasks.start_soon(look, deliveries)
                await anyio.wait_all_tasks_blocked()
            await producer.flush()
        if not first:
            await look(deliveries)
        assert not lines(caplog)
        assert all(one.done for one in deliveries)
        assert sum(value for name, value in producer.metrics().items() if name.name == "record-error-total") >= 3
        deliveries.clear()
        assert len(lines(caplog)) == logged
        assert all("3 records for t-0" in one for one in lines(caplog))


@pytest.mark.parametrize(("callbacks", "logged"), [(3, 0), (2, 1), (0, 1)])
@pytest.mark.parametrize("interceptors", [(), (ProducerInterceptor(),)], ids=["plain", "intercepted"])
async def test_a_callback_is_told(
    callbacks: int, logged: int, interceptors: Any, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []
    async with Producer(
        "a:1", seams=refusing().seams(), enable_idempotence=False, linger_ms=60_000, interceptors=interceptors
    ) as producer:
        for number in range(3):
            listen = (lambda metadata, error: told.append(type(error))) if number < callbacks else None
            await producer.send("t", b"%d" % number, on_delivery=listen)
        await producer.flush()
    assert told == [InvalidRecordError] * callbacks
    assert len(lines(caplog)) == logged


async def test_a_callback_may_look_at_another_record_of_its_batch(caplog: pytest.LogCaptureFixture) -> None:
    deliveries: Deliveries = []
    told: list[Any] = []

    def look(metadata: Any, error: Any) -> None:
        try:
            deliveries[0].result()
        except KafkaError as failure:
            told.append(type(failure))

    async with Producer("a:1", seams=refusing().seams(), enable_idempotence=False, linger_ms=60_000) as producer:
        deliveries.append(await producer.send("t", b"0"))
        deliveries.append(await producer.send("t", b"1", on_delivery=look))
        await producer.flush()
        deliveries.clear()
    gc.collect()  # An error that was raised knows the batch.
    assert told == [InvalidRecordError]
    assert not lines(caplog)


def test_of_a_split_batch_each_half_is_looked_at_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        network = refusing(ErrorCode.MESSAGE_TOO_LARGE)
        async with Producer("a:1", seams=network.seams(), enable_idempotence=False, linger_ms=60_000) as producer:
            deliveries = [await producer.send("t", b"%d" % number) for number in range(2)]
            await producer.flush()
            await awaited(deliveries[:1])

    asyncio.run(main())
    gc.collect()  # An error that was raised knows both halves.
    assert len(lines(caplog)) == 1
    assert "1 record for t-0" in lines(caplog)[0]


@pytest.mark.parametrize("looked", [True, False])
def test_a_blocking_producer_logs_if_nobody_looks(looked: bool, caplog: pytest.LogCaptureFixture) -> None:
    with blocking.Producer("a:1", seams=refusing().seams(), enable_idempotence=False) as producer:
        delivery = producer.send("t", b"x")
        producer.flush()
        if looked:
            with pytest.raises(InvalidRecordError):
                delivery.result()
        del delivery
    assert len(lines(caplog)) == (not looked)


@pytest.mark.parametrize("is_blocking", [False, True])
async def test_an_error_that_is_looked_at_often_does_not_grow(is_blocking: bool) -> None:
    """Each `raise` of one exception adds to its traceback, which keeps the frames: 700 bytes for each record."""

    def frames(look: Callable[[], Any]) -> int:
        try:
            look()
        except KafkaError as error:
            trace, count = error.__traceback__, 0
            while trace is not None:
                trace, count = trace.tb_next, count + 1
            return count
        raise AssertionError("it has failed")

    def of_blocking() -> list[Deliveries]:
        with blocking.Producer("a:1", seams=refusing().seams(), enable_idempotence=False) as producer:
            return [producer.send("t", b"%d" % number) for number in range(20)]

    if is_blocking:
        deliveries: list[Any] = await anyio.to_thread.run_sync(of_blocking)
    else:
        async with Producer("a:1", seams=refusing().seams(), enable_idempotence=False) as producer:
            deliveries = await producer.send_many("t", [b"%d" % number for number in range(20)])
    assert len({frames(one.result) for one in deliveries * 5}) == 1
