"""Interceptors of producer and consumer (KIP-42), and deserializers that are told topic and headers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import pytest
from support.group_members import fill
from support.no_exceptions import NO_EXCEPTIONS

from minikafka.client import (
    Consumer,
    ConsumerInterceptor,
    ConsumerRecord,
    InvalidOption,
    OffsetAndMetadata,
    Producer,
    ProducerInterceptor,
    ProducerRecord,
    RecordDeserializationError,
    RecordMetadata,
    TopicPartition,
    blocking,
)
from minikafka.client.blocking.blocking_client import BlockingClient
from minikafka.client.options import ProducerOptions
from minikafka.protocol.errors import MessageTooLargeError
from minikafka.protocol.records.record import Headers

pytestmark = pytest.mark.anyio


class Tracing(ProducerInterceptor):
    """Adds a header with its name, and records acknowledgements."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.acknowledged: list[tuple[str, int, int, type | None]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(headers=(*record.headers, ("by", self.name.encode())))

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        self.acknowledged.append((metadata.topic, metadata.partition, metadata.offset, type(error) if error else None))


class Broken(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("on_send")

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        raise RuntimeError("on_acknowledgement")


class Odd(ConsumerInterceptor):
    """Leaves out records with even offsets, and records commits."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}

    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        self.seen += [one.offset for one in records]
        return [one for one in records if one.offset % 2]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed |= offsets


class BrokenConsumer(ConsumerInterceptor):
    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        raise RuntimeError("on_consume")

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        raise RuntimeError("on_commit")


def reader(bootstrap: str, topic: str, **options: Any) -> Consumer:
    arguments = {"auto_offset_reset": "earliest", "stop_at": "end", **options}
    return Consumer(topic, bootstrap_servers=bootstrap, **arguments)


async def test_records_pass_the_interceptors_in_order(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(bootstrap, topic, 2, 0)
    first, second, delivered = Tracing("first"), Tracing("second"), list[Any]()
    options: dict[str, Any] = {"interceptors": [first, Broken(), second], "value_serializer": str.encode}
    with caplog.at_level(logging.ERROR, "minikafka.client.producer"):
        async with Producer(bootstrap_servers=bootstrap, **options) as producer:
            await producer.send_and_wait(topic, "a", partition=1, on_delivery=lambda *result: delivered.append(result))
            await producer.send_many(topic, ["b", "c"], keys=[b"k", None], partition=0)
    assert [one.message for one in caplog.records[:2]] == [
        "interceptor failed: Broken.on_send",
        "interceptor failed: Broken.on_acknowledgement",
    ]
    assert first.acknowledged == second.acknowledged == [(topic, 1, 0, None), (topic, 0, 0, None), (topic, 0, 1, None)]
    assert len(delivered) == 1
    async with reader(bootstrap, topic) as consumer:
        found = sorted([(one.value, one.key, tuple(one.headers)) async for one in consumer], key=lambda one: one[0])
    headers = (("by", b"first"), ("by", b"second"))
    assert found == [(b"a", None, headers), (b"b", b"k", headers), (b"c", None, headers)]


async def test_records_that_cannot_be_sent_are_acknowledged_too(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 0)
    tracing = Tracing("t")
    async with Producer(bootstrap_servers=bootstrap, interceptors=[tracing], max_request_size=1000) as producer:
        with pytest.raises(MessageTooLargeError):
            await producer.send(topic, b"x" * 2000, partition=0)
        with pytest.raises(TypeError):
            await producer.send(topic, 5)
        assert tracing.acknowledged == [(topic, 0, -1, MessageTooLargeError), (topic, -1, -1, TypeError)]
    with blocking.Producer(bootstrap_servers=bootstrap, interceptors=[tracing]) as sender:
        sender.send(topic, b"x").result()
        with pytest.raises(TypeError):
            sender.send(topic, 5)
    assert tracing.acknowledged[2:] == [(topic, 0, 0, None), (topic, -1, -1, TypeError)]
    async with reader(bootstrap, topic) as consumer:
        assert [tuple(one.headers) async for one in consumer] == [(("by", b"t"),)]


async def _iterate(consumer: Consumer) -> list[int]:
    return [one.offset async for one in consumer]


async def _batches(consumer: Consumer) -> list[int]:
    return [one.offset async for batch in consumer.batches() for one in batch]


async def _polls(consumer: Consumer) -> list[int]:
    found: list[int] = []
    while not consumer.at_end():
        found += [one.offset for one in await consumer.poll(1000, max_records=7)]
    return found


@pytest.mark.parametrize("read", [_iterate, _batches, _polls])
async def test_a_consumers_interceptors_see_records_and_commits(
    bootstrap: str, topic: str, read: Callable[[Consumer], Any], caplog: pytest.LogCaptureFixture
) -> None:
    await fill(bootstrap, topic, 1, 20)
    odd = Odd()
    async with reader(bootstrap, topic, group_id=topic, interceptors=[BrokenConsumer(), odd]) as consumer:
        with anyio.fail_after(60):
            assert await read(consumer) == list(range(1, 20, 2))
        assert odd.seen == list(range(20))
        await consumer.commit()
    assert odd.committed == {TopicPartition(topic, 0): OffsetAndMetadata(20, leader_epoch=0)}
    assert {one.message for one in caplog.records if "interceptor" in one.message} == {
        "interceptor failed: BrokenConsumer.on_consume",
        "interceptor failed: BrokenConsumer.on_commit",
    }


def test_a_blocking_iteration_goes_on_where_all_records_were_left_out(minikafka_bootstrap: str, topic: str) -> None:
    anyio.run(fill, minikafka_bootstrap, topic, 1, 20)
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "stop_at": "end", "max_poll_records": 1}
    with blocking.Consumer(topic, bootstrap_servers=minikafka_bootstrap, interceptors=[Odd()], **options) as consumer:
        assert [record.offset for record in consumer] == list(range(1, 20, 2))


class ByType:
    """Parses values as the header "type" says. Source: the example of KIP-82."""

    def deserialize(self, topic: str, headers: Headers, data: bytes) -> Any:
        kind = dict(headers).get("type")
        return (topic, json.loads(data) if kind == b"json" else data.decode())


async def test_deserializers_get_topic_and_headers_or_only_the_bytes(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 0)
    async with Producer(bootstrap_servers=bootstrap) as producer:
        await producer.send(topic, b"{}", key=b"1", headers=[("type", b"json")])
        await producer.send(topic, b"{}", key=b"2")
        await producer.send(topic, None, key=b"3", headers=[("type", b"json")])
        await producer.send(topic, b"{", key=b"4", headers=[("type", b"json")])
    async with reader(bootstrap, topic, key_deserializer=int, value_deserializer=ByType()) as consumer:
        found = [await anext(aiter(consumer)) for _ in range(3)]
        assert [(one.key, one.value) for one in found] == [(1, (topic, {})), (2, (topic, "{}")), (3, None)]
        with pytest.raises(RecordDeserializationError, match="offset 3") as failed:
            await anext(aiter(consumer))
        assert (failed.value.origin, tuple(failed.value.headers)) == ("value", (("type", b"json"),))


@pytest.mark.parametrize("error", NO_EXCEPTIONS, ids=repr)
async def test_what_is_no_exception_is_the_error_of_a_record_too(
    bootstrap: str, topic: str, error: BaseException
) -> None:
    def raises(data: bytes) -> Any:
        if data == b"1":
            raise error
        return int(data)

    await fill(bootstrap, topic, 1, 3)
    async with reader(bootstrap, topic, value_deserializer=raises) as consumer:
        assert (await anext(aiter(consumer))).value == 0
        with pytest.raises(RecordDeserializationError, match="offset 1") as failed:
            await anext(aiter(consumer))
        assert failed.value.__cause__ is error
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "value_deserializer": raises}
    with blocking.Consumer(topic, bootstrap_servers=bootstrap, **options) as other:
        with pytest.raises(RecordDeserializationError, match="offset 1") as failed:
            list(other)
        assert failed.value.__cause__ is error
        other.seek((topic, 0), 2)
        assert [one.value for one in other.poll(20_000)] == [2]


def test_what_are_no_interceptors_or_deserializers_is_refused() -> None:
    for options in ({"interceptors": [Odd]}, {"interceptors": Odd()}, {"interceptors": [Tracing("t")]}):
        with pytest.raises(InvalidOption, match="a list of ConsumerInterceptor objects"):
            Consumer("t", **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="a callable, or an object with a method deserialize"):
        Consumer("t", value_deserializer=5)  # type: ignore[arg-type]
    assert "interceptors" in ProducerOptions.functions()


def _replaced(**fields: Any) -> Callable[[ConsumerRecord], list[ConsumerRecord]]:
    return lambda record: [record._replace(**fields)]


INTERCEPTORS: dict[str, Callable[[ConsumerRecord], list[ConsumerRecord]]] = {
    "another topic": _replaced(topic="another"),
    "another partition": _replaced(partition=7),
    "offset 0": _replaced(offset=0),
    "a huge offset": _replaced(offset=1 << 40),
    "leaves some out": lambda record: [record][record.offset % 3 == 0 :],
    "leaves all out": lambda record: [],
    "doubles": lambda record: [record, record._replace(topic="copy")],
}
CALLS: dict[str, Callable[[blocking.Consumer, str], Any]] = {
    "none": lambda consumer, topic: None,
    "lag": lambda consumer, topic: consumer.lag((topic, 0)),
    "position": lambda consumer, topic: consumer.position((topic, 0)),
    "commit": lambda consumer, topic: consumer.commit(),
    "settled": lambda consumer, topic: consumer.settled,
}


class Changing(ConsumerInterceptor):
    """Puts other records in the place of each."""

    def __init__(self, change: Callable[[ConsumerRecord], list[ConsumerRecord]]) -> None:
        self._change = change

    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        return [other for one in records for other in self._change(one)]


def _loop(consumer: blocking.Consumer) -> Any:
    return consumer


def _blocking_polls(consumer: blocking.Consumer) -> Any:
    while not consumer.at_end():
        yield from consumer.poll(1_000, max_records=7)


@pytest.mark.parametrize("read", [_loop, _blocking_polls])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("change", INTERCEPTORS)
def test_positions_are_those_of_what_was_fetched_whatever_interceptors_return(
    minikafka_bootstrap: str, topic: str, change: str, call: str, read: Callable[[blocking.Consumer], Any]
) -> None:
    anyio.run(fill, minikafka_bootstrap, topic, 1, 40)
    with blocking.Consumer(topic, bootstrap_servers=minikafka_bootstrap, auto_offset_reset="earliest") as plain:
        fetched: list[ConsumerRecord] = []
        while len(fetched) < 40:
            fetched += plain.poll(1_000)
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "stop_at": "end", "group_id": topic}
    with blocking.Consumer(
        topic, bootstrap_servers=minikafka_bootstrap, interceptors=[Changing(INTERCEPTORS[change])], **options
    ) as consumer:
        found: list[tuple[str, Any]] = []
        for record in read(consumer):
            found.append((record.topic, record.value))
            if len(found) % 9 == 0:
                CALLS[call](consumer, topic)
    assert found == [(one.topic, one.value) for record in fetched for one in INTERCEPTORS[change](record)]
    with blocking.Consumer(bootstrap_servers=minikafka_bootstrap, group_id=topic) as other:
        assert other.committed((topic, 0))[TopicPartition(topic, 0)].offset == 40


@pytest.mark.parametrize("change", INTERCEPTORS)
def test_what_is_in_process_is_the_same_with_interceptors(minikafka_bootstrap: str, topic: str, change: str) -> None:
    """The offsets that automatic commits and `settled` have after each record."""
    anyio.run(fill, minikafka_bootstrap, topic, 1, 20)
    partition = TopicPartition(topic, 0)
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "stop_at": "end", "group_id": topic}
    with blocking.Consumer(
        topic, bootstrap_servers=minikafka_bootstrap, interceptors=[Changing(INTERCEPTORS[change])], **options
    ) as consumer:
        for record in consumer:
            offset = int(record.value or b"")
            BlockingClient._run(consumer, consumer._note_yielded)
            assert consumer._consumer.settled[partition].offset <= offset
            assert consumer.settled[partition].offset == offset
